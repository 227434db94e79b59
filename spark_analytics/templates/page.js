(() => {
"use strict";
const UNITS = {KiB: 1024, MiB: 1048576, GiB: 1073741824, TiB: 1099511627776, s: 1000};
const COPIED_MS = 1500, FILTER_ROWS = 15;
function value(cell) {
  const text = cell.textContent.trim(), found = /^[<>+−-]?\s*([\d,]+(?:\.\d+)?)\s*(\S*)/.exec(text);
  if (!found || /^\d\d:\d\d/.test(text)) return text.toLowerCase();
  return parseFloat(found[1].replace(/,/g, "")) * (UNITS[found[2]] || 1) * (/^[−-]/.test(text) ? -1 : 1);
}
function compare(one, other) {
  if (typeof one === typeof other) return one < other ? -1 : one > other ? 1 : 0;
  return typeof one === "number" ? -1 : 1;
}
function sort(table, column, down) {
  const body = table.tBodies[0], rows = [...body.rows].map(row => [value(row.cells[column]), row]);
  rows.sort((one, other) => {
    if (typeof one[0] !== typeof other[0]) return compare(one[0], other[0]);
    return compare(one[0], other[0]) * (down ? -1 : 1);
  });
  body.append(...rows.map(entry => entry[1]));
}
for (const table of document.querySelectorAll("table.sort")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const was = head.getAttribute("aria-sort");
      const down = was ? was === "ascending" : head.classList.contains("n");
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort(table, column, down);
    });
  });
  if (table.tBodies[0].rows.length <= FILTER_ROWS) continue;
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "filter rows";
  input.className = "filter";
  input.setAttribute("aria-label", "filter rows of " + (table.getAttribute("aria-label") || "the table"));
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  table.parentElement.before(input);
}
for (const plot of document.querySelectorAll(".plot")) {
  const readout = plot.querySelector(".readout");
  if (!readout) continue;
  for (const column of plot.querySelectorAll("svg g")) {
    const tip = column.querySelector("title");
    const text = tip.textContent;
    column.addEventListener("pointerenter", () => { readout.textContent = text; tip.textContent = ""; });
    column.addEventListener("pointerleave", event => {
      tip.textContent = text;
      if (event.pointerType !== "touch") readout.textContent = "";
    });
    if (column.parentElement.localName === "a") column.parentElement.addEventListener("focus", () => { readout.textContent = text; });
  }
}
const places = new Map([...document.querySelectorAll("nav a[href^='#']")].map(link => [link.hash.slice(1), link]));
const seen = new Set();
const watcher = new IntersectionObserver(changes => {
  for (const change of changes) if (change.isIntersecting) seen.add(change.target.id); else seen.delete(change.target.id);
  const first = [...places.keys()].find(id => seen.has(id));
  for (const [id, link] of places) if (id === first) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
}, {rootMargin: "-44px 0px -55% 0px"});
for (const id of places.keys()) if (document.getElementById(id)) watcher.observe(document.getElementById(id));
for (const command of document.querySelectorAll("code.cmd")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "copy";
  button.setAttribute("aria-label", "copy the command");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
    } catch {
      getSelection().selectAllChildren(command);
      document.execCommand("copy");
    }
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, COPIED_MS);
  });
  command.after(button);
}
})();
