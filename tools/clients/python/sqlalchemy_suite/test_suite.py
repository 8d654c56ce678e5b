"""All tests of the suite that SQLAlchemy ships for dialects."""

from sqlalchemy.testing.suite import *  # noqa: F401, F403
