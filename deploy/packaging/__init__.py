"""How a package, an image and their bill of materials are made of the locked requirements."""
