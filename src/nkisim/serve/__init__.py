"""A warm process for editors and programs: each request is a command line, run in a child."""
