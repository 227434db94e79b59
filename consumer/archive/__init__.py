"""The library that reads the archive, and the formats of what is on its disk.

What is on the disk, relative to the directory of the archive:

    date=D/partition=P/host=H/   the text of one day of one host: segments, which are sealed and never change, and
                                 open files, of which only the committed bytes count
    _manifest/date=D/C.jsonl     the manifest of collector C: one JSON line for each segment, with its sources and sums
    _manifest/date=D/C.done      collector C has nothing more for that day
    _journal/*.sqlite            the journal of each partition: what is applied, up to which byte, and its open files;
                                 with SHIPPER_STATE, journals are outside of the archive
    _lock/                       locks of the one writer of a partition, of retention, and of rewriting segments

Who writes: `commit` appends to open files and commits them in the journal, `segments` seals, merges and removes, and
`audit` replaces segments (redaction, repair). A file counts only if a manifest or a journal lists it. A segment that
replaces others names them in its manifest line, and their lines count no more.

How one reads:

    reader = ArchiveReader(directory, state)
    for part in reader.find(Wanted(hosts=Globs(("web*",)))):         # by manifests and journals, oldest first
        with reader.open(part, since_ns=0, until_ns=None) as lines:  # also where it was sealed or merged meanwhile
            for block in lines.blocks:                               # whole lines
                ...

`reader` has `ArchiveReader`, and `parts` has `Part`, a file with text. Those who need what is on the disk itself use
`manifests` (every segment of a day), `journal_snapshot` (copies of journals), `directory` (paths and identity) and
`segment_io` (packed bytes). The Spark report reads the same manifests in `spark_analytics/archive`.

This package imports no other package of the consumer, except its `model`.
"""
