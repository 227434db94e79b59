"""What starts the programs: the embedded server, the demo, and the files that operators copy. Imports none of them."""
