from hypothesis import settings

# The same examples in every run and on every worker, no time limit on a loaded machine, and no
# database: a test leaves no files behind.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
