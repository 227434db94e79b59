"""`fshipper capacity`: disk, memory, cores and streams for a number of hosts, from the measured figures."""
