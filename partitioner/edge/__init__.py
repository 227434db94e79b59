"""Edge sites: what a site has, and what the centre sources from it."""
