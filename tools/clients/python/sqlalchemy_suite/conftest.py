"""SQLAlchemy's dialect suite, run as its authors describe for dialects of others."""

import pytest
from sqlalchemy.dialects.postgresql import provision

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

# Two extensions are installed for tests of SQLAlchemy's own that are not in the suite for dialects: on neither server.
provision._extensions.clear()

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F401, F403
