"""`fshipper up`: server, collector, producer and page of one machine in one process tree."""
