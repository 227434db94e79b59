"""The pages in a browser: status, search and reports under one address, and the search page alone."""
