"""`fshipper browse`: search and follow the logs of all hosts in a browser, with a process for each search."""
