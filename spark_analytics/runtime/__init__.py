"""The Java process and the Spark session: start, memory, tuning, interrupts."""
