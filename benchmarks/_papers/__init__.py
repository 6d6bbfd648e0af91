"""Methods of the papers with the noise of the papers: never private releases."""
