"""What the suite may ask for: what PostgreSQL has beyond the suite's own choice, so that more of it is run on both servers."""

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

ALSO = """
    array_type autocommit bound_limit_offset check_constraint_reflection comment_reflection computed_columns ctes ctes_on_dml
    ctes_with_update_delete datetime_interval datetime_timezone delete_returning delete_using except_ fetch_expression fetch_first
    fetch_ties fk_constraint_option_reflection_ondelete_restrict fk_constraint_option_reflection_onupdate_restrict
    foreign_key_constraint_option_reflection_ondelete foreign_key_constraint_option_reflection_onupdate identity_columns
    index_reflects_included_columns indexes_with_expressions infinity_floats insert_returning insertmanyvalues intersect isolation_level
    json_type materialized_views nullsordering order_by_collation precision_numerics_enotation_large
    precision_numerics_many_significant_digits precision_numerics_retains_significant_digits reflect_indexes_with_ascdesc
    reflect_indexes_with_expressions regexp_match regexp_replace savepoints schemas sequences server_side_cursors temp_table_names
    temporary_views time_timezone tuple_in unicode_ddl update_from update_returning uuid_data_type views window_functions window_range
"""


class Requirements(SuiteRequirements):
    """The suite's choice and [`ALSO`]."""

    def get_isolation_levels(self, config):
        levels = ["AUTOCOMMIT", "READ COMMITTED", "READ UNCOMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
        return {"default": "READ COMMITTED", "supported": levels}


for name in ALSO.split():
    setattr(Requirements, name, property(lambda self: exclusions.open()))
