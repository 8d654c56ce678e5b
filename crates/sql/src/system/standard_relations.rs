//! The relations of schema `information_schema`: their columns as PostgreSQL 15 has them.

use super::domains;
use super::standard;
use super::{Definition, nothing};

pub(super) const RELATIONS: &[Definition] = &[
    Definition {
        name: "applicable_roles",
        oid: 13236,
        is_view: true,
        columns: "grantee name, role_name name, is_grantable yes_or_no",
        rows: nothing,
    },
    Definition {
        name: "attributes",
        oid: 13245,
        is_view: true,
        columns: "udt_catalog name, udt_schema name, udt_name name, attribute_name \
         name, ordinal_position cardinal_number, attribute_default character_data, is_nullable \
         yes_or_no, data_type character_data, character_maximum_length cardinal_number, \
         character_octet_length cardinal_number, character_set_catalog name, character_set_schema \
         name, character_set_name name, collation_catalog name, \
         collation_schema name, collation_name name, numeric_precision cardinal_number, \
         numeric_precision_radix cardinal_number, numeric_scale cardinal_number, datetime_precision \
         cardinal_number, interval_type character_data, interval_precision cardinal_number, \
         attribute_udt_catalog name, attribute_udt_schema name, attribute_udt_name \
         name, scope_catalog name, scope_schema name, scope_name \
         name, maximum_cardinality cardinal_number, dtd_identifier name, \
         is_derived_reference_attribute yes_or_no",
        rows: nothing,
    },
    Definition {
        name: "character_sets",
        oid: 13250,
        is_view: true,
        columns: "character_set_catalog name, character_set_schema name, character_set_name name, character_repertoire \
         name, form_of_use name, default_collate_catalog name, default_collate_schema name, \
         default_collate_name name",
        rows: standard::character_sets,
    },
    Definition {
        name: "check_constraint_routine_usage",
        oid: 13255,
        is_view: true,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, \
         specific_catalog name, specific_schema name, specific_name name",
        rows: nothing,
    },
    Definition {
        name: "check_constraints",
        oid: 13260,
        is_view: true,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, check_clause character_data",
        rows: standard::check_constraints,
    },
    Definition {
        name: "column_domain_usage",
        oid: 13280,
        is_view: true,
        columns: "domain_catalog name, domain_schema name, domain_name name, table_catalog name, table_schema name, \
         table_name name, column_name name",
        rows: domains::column_usage,
    },
    Definition {
        name: "column_options",
        oid: 13503,
        is_view: true,
        columns: "table_catalog name, table_schema name, table_name name, column_name \
         name, option_name name, option_value character_data",
        rows: nothing,
    },
    Definition {
        name: "column_privileges",
        oid: 13285,
        is_view: true,
        columns: "grantor name, grantee name, table_catalog name, table_schema name, table_name name, column_name \
         name, privilege_type character_data, is_grantable yes_or_no",
        rows: nothing,
    },
    Definition {
        name: "columns",
        oid: 13295,
        is_view: true,
        columns: "table_catalog name, table_schema name, table_name name, column_name name, ordinal_position \
         cardinal_number, column_default character_data, is_nullable yes_or_no, data_type character_data, \
         character_maximum_length cardinal_number, character_octet_length cardinal_number, numeric_precision \
         cardinal_number, numeric_precision_radix cardinal_number, numeric_scale cardinal_number, \
         datetime_precision cardinal_number, interval_type character_data, interval_precision \
         cardinal_number, character_set_catalog name, character_set_schema name, character_set_name name, \
         collation_catalog name, collation_schema name, collation_name name, domain_catalog name, \
         domain_schema name, domain_name name, udt_catalog name, udt_schema name, udt_name name, \
         scope_catalog name, scope_schema name, scope_name name, maximum_cardinality cardinal_number, \
         dtd_identifier name, is_self_referencing yes_or_no, is_identity yes_or_no, identity_generation \
         character_data, identity_start character_data, identity_increment character_data, identity_maximum \
         character_data, identity_minimum character_data, identity_cycle yes_or_no, is_generated \
         character_data, generation_expression character_data, is_updatable yes_or_no",
        rows: standard::columns,
    },
    Definition {
        name: "constraint_column_usage",
        oid: 13300,
        is_view: true,
        columns: "table_catalog name, table_schema name, table_name name, column_name name, constraint_catalog name, \
         constraint_schema name, constraint_name name",
        rows: standard::constraint_column_usage,
    },
    Definition {
        name: "constraint_table_usage",
        oid: 13305,
        is_view: true,
        columns: "table_catalog name, table_schema name, table_name name, constraint_catalog name, constraint_schema \
         name, constraint_name name",
        rows: standard::constraint_table_usage,
    },
    Definition {
        name: "domain_constraints",
        oid: 13315,
        is_view: true,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, domain_catalog name, \
         domain_schema name, domain_name name, is_deferrable yes_or_no, initially_deferred yes_or_no",
        rows: domains::domain_constraints,
    },
    Definition {
        name: "domains",
        oid: 13320,
        is_view: true,
        columns: "domain_catalog name, domain_schema name, domain_name name, data_type character_data, \
         character_maximum_length cardinal_number, character_octet_length cardinal_number, \
         character_set_catalog name, character_set_schema name, character_set_name name, collation_catalog \
         name, collation_schema name, collation_name name, numeric_precision cardinal_number, \
         numeric_precision_radix cardinal_number, numeric_scale cardinal_number, datetime_precision \
         cardinal_number, interval_type character_data, interval_precision cardinal_number, domain_default \
         character_data, udt_catalog name, udt_schema name, udt_name name, scope_catalog name, scope_schema \
         name, scope_name name, maximum_cardinality cardinal_number, dtd_identifier name",
        rows: domains::domains,
    },
    Definition {
        name: "element_types",
        oid: 13493,
        is_view: true,
        columns: "object_catalog name, object_schema name, object_name name, object_type character_data, \
         collection_type_identifier name, data_type character_data, character_maximum_length cardinal_number, \
         character_octet_length cardinal_number, character_set_catalog name, character_set_schema name, \
         character_set_name name, collation_catalog name, collation_schema name, collation_name name, \
         numeric_precision cardinal_number, numeric_precision_radix cardinal_number, numeric_scale \
         cardinal_number, datetime_precision cardinal_number, interval_type character_data, \
         interval_precision cardinal_number, domain_default character_data, udt_catalog name, udt_schema \
         name, udt_name name, scope_catalog name, scope_schema name, scope_name name, maximum_cardinality \
         cardinal_number, dtd_identifier name",
        rows: nothing,
    },
    Definition {
        name: "enabled_roles",
        oid: 13325,
        is_view: true,
        columns: "role_name name",
        rows: standard::enabled_roles,
    },
    Definition {
        name: "foreign_data_wrapper_options",
        oid: 13511,
        is_view: true,
        columns: "foreign_data_wrapper_catalog name, foreign_data_wrapper_name name, option_name \
         name, option_value character_data",
        rows: nothing,
    },
    Definition {
        name: "foreign_data_wrappers",
        oid: 13515,
        is_view: true,
        columns: "foreign_data_wrapper_catalog name, foreign_data_wrapper_name name, \
         authorization_identifier name, library_name character_data, foreign_data_wrapper_language \
         character_data",
        rows: nothing,
    },
    Definition {
        name: "foreign_server_options",
        oid: 13524,
        is_view: true,
        columns: "foreign_server_catalog name, foreign_server_name name, option_name \
         name, option_value character_data",
        rows: nothing,
    },
    Definition {
        name: "foreign_servers",
        oid: 13528,
        is_view: true,
        columns: "foreign_server_catalog name, foreign_server_name name, \
         foreign_data_wrapper_catalog name, foreign_data_wrapper_name name, \
         foreign_server_type character_data, foreign_server_version character_data, authorization_identifier \
         name",
        rows: nothing,
    },
    Definition {
        name: "foreign_table_options",
        oid: 13537,
        is_view: true,
        columns: "foreign_table_catalog name, foreign_table_schema name, foreign_table_name \
         name, option_name name, option_value character_data",
        rows: nothing,
    },
    Definition {
        name: "foreign_tables",
        oid: 13541,
        is_view: true,
        columns: "foreign_table_catalog name, foreign_table_schema name, foreign_table_name \
         name, foreign_server_catalog name, foreign_server_name name",
        rows: nothing,
    },
    Definition {
        name: "information_schema_catalog_name",
        oid: 13227,
        is_view: true,
        columns: "catalog_name name",
        rows: standard::catalog_name,
    },
    Definition {
        name: "key_column_usage",
        oid: 13329,
        is_view: true,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name, \
         table_schema name, table_name name, column_name name, ordinal_position cardinal_number, \
         position_in_unique_constraint cardinal_number",
        rows: standard::key_column_usage,
    },
    Definition {
        name: "parameters",
        oid: 13334,
        is_view: true,
        columns: "specific_catalog name, specific_schema name, specific_name name, ordinal_position cardinal_number, \
         parameter_mode character_data, is_result yes_or_no, as_locator yes_or_no, parameter_name name, \
         data_type character_data, character_maximum_length cardinal_number, character_octet_length \
         cardinal_number, character_set_catalog name, character_set_schema name, character_set_name name, \
         collation_catalog name, collation_schema name, collation_name name, numeric_precision \
         cardinal_number, numeric_precision_radix cardinal_number, numeric_scale cardinal_number, \
         datetime_precision cardinal_number, interval_type character_data, interval_precision \
         cardinal_number, udt_catalog name, udt_schema name, udt_name name, scope_catalog name, scope_schema \
         name, scope_name name, maximum_cardinality cardinal_number, dtd_identifier name, parameter_default \
         character_data",
        rows: nothing,
    },
    Definition {
        name: "referential_constraints",
        oid: 13339,
        is_view: true,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, unique_constraint_catalog \
         name, unique_constraint_schema name, unique_constraint_name name, match_option character_data, \
         update_rule character_data, delete_rule character_data",
        rows: standard::referential_constraints,
    },
    Definition {
        name: "role_column_grants",
        oid: 13344,
        is_view: true,
        columns: "grantor name, grantee name, table_catalog name, table_schema \
         name, table_name name, column_name name, privilege_type \
         character_data, is_grantable yes_or_no",
        rows: nothing,
    },
    Definition {
        name: "role_routine_grants",
        oid: 13358,
        is_view: true,
        columns: "grantor name, grantee name, specific_catalog name, specific_schema \
         name, specific_name name, routine_catalog name, routine_schema \
         name, routine_name name, privilege_type character_data, is_grantable yes_or_no",
        rows: nothing,
    },
    Definition {
        name: "role_table_grants",
        oid: 13421,
        is_view: true,
        columns: "grantor name, grantee name, table_catalog name, table_schema \
         name, table_name name, privilege_type character_data, is_grantable yes_or_no, \
         with_hierarchy yes_or_no",
        rows: standard::table_privileges,
    },
    Definition {
        name: "role_udt_grants",
        oid: 13450,
        is_view: true,
        columns: "grantor name, grantee name, udt_catalog name, udt_schema \
         name, udt_name name, privilege_type character_data, is_grantable yes_or_no",
        rows: nothing,
    },
    Definition {
        name: "routine_privileges",
        oid: 13353,
        is_view: true,
        columns: "grantor name, grantee name, specific_catalog name, specific_schema \
         name, specific_name name, routine_catalog name, routine_schema \
         name, routine_name name, privilege_type character_data, is_grantable yes_or_no",
        rows: nothing,
    },
    Definition {
        name: "routines",
        oid: 13377,
        is_view: true,
        columns: "specific_catalog name, specific_schema name, specific_name name, routine_catalog name, \
         routine_schema name, routine_name name, routine_type character_data, module_catalog name, \
         module_schema name, module_name name, udt_catalog name, udt_schema name, udt_name name, data_type \
         character_data, character_maximum_length cardinal_number, character_octet_length cardinal_number, \
         character_set_catalog name, character_set_schema name, character_set_name name, collation_catalog \
         name, collation_schema name, collation_name name, numeric_precision cardinal_number, \
         numeric_precision_radix cardinal_number, numeric_scale cardinal_number, datetime_precision \
         cardinal_number, interval_type character_data, interval_precision cardinal_number, type_udt_catalog \
         name, type_udt_schema name, type_udt_name name, scope_catalog name, scope_schema name, scope_name \
         name, maximum_cardinality cardinal_number, dtd_identifier name, routine_body character_data, \
         routine_definition character_data, external_name character_data, external_language character_data, \
         parameter_style character_data, is_deterministic yes_or_no, sql_data_access character_data, \
         is_null_call yes_or_no, sql_path character_data, schema_level_routine yes_or_no, \
         max_dynamic_result_sets cardinal_number, is_user_defined_cast yes_or_no, is_implicitly_invocable \
         yes_or_no, security_type character_data, to_sql_specific_catalog name, to_sql_specific_schema name, \
         to_sql_specific_name name, as_locator yes_or_no, created time_stamp, last_altered time_stamp, \
         new_savepoint_level yes_or_no, is_udt_dependent yes_or_no, result_cast_from_data_type \
         character_data, result_cast_as_locator yes_or_no, result_cast_char_max_length cardinal_number, \
         result_cast_char_octet_length cardinal_number, result_cast_char_set_catalog name, \
         result_cast_char_set_schema name, result_cast_char_set_name name, result_cast_collation_catalog \
         name, result_cast_collation_schema name, result_cast_collation_name name, \
         result_cast_numeric_precision cardinal_number, result_cast_numeric_precision_radix cardinal_number, \
         result_cast_numeric_scale cardinal_number, result_cast_datetime_precision cardinal_number, \
         result_cast_interval_type character_data, result_cast_interval_precision cardinal_number, \
         result_cast_type_udt_catalog name, result_cast_type_udt_schema name, result_cast_type_udt_name name, \
         result_cast_scope_catalog name, result_cast_scope_schema name, result_cast_scope_name name, \
         result_cast_maximum_cardinality cardinal_number, result_cast_dtd_identifier name",
        rows: nothing,
    },
    Definition {
        name: "schemata",
        oid: 13382,
        is_view: true,
        columns: "catalog_name name, schema_name name, schema_owner name, default_character_set_catalog name, \
         default_character_set_schema name, default_character_set_name name, sql_path character_data",
        rows: standard::schemata,
    },
    Definition {
        name: "sequences",
        oid: 13386,
        is_view: true,
        columns: "sequence_catalog name, sequence_schema name, sequence_name name, data_type character_data, \
         numeric_precision cardinal_number, numeric_precision_radix cardinal_number, numeric_scale \
         cardinal_number, start_value character_data, minimum_value character_data, maximum_value \
         character_data, increment character_data, cycle_option yes_or_no",
        rows: standard::sequences,
    },
    Definition {
        name: "table_constraints",
        oid: 13411,
        is_view: true,
        columns: "constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name, \
         table_schema name, table_name name, constraint_type character_data, is_deferrable yes_or_no, \
         initially_deferred yes_or_no, enforced yes_or_no, nulls_distinct yes_or_no",
        rows: standard::table_constraints,
    },
    Definition {
        name: "table_privileges",
        oid: 13416,
        is_view: true,
        columns: "grantor name, grantee name, table_catalog name, table_schema name, table_name name, privilege_type \
         character_data, is_grantable yes_or_no, with_hierarchy yes_or_no",
        rows: standard::table_privileges,
    },
    Definition {
        name: "tables",
        oid: 13425,
        is_view: true,
        columns: "table_catalog name, table_schema name, table_name name, table_type character_data, \
         self_referencing_column_name name, reference_generation character_data, user_defined_type_catalog \
         name, user_defined_type_schema name, user_defined_type_name name, is_insertable_into yes_or_no, \
         is_typed yes_or_no, commit_action character_data",
        rows: standard::tables,
    },
    Definition {
        name: "transforms",
        oid: 13430,
        is_view: true,
        columns: "udt_catalog name, udt_schema name, udt_name name, specific_catalog \
         name, specific_schema name, specific_name name, group_name \
         name, transform_type character_data",
        rows: nothing,
    },
    Definition {
        name: "triggered_update_columns",
        oid: 13435,
        is_view: true,
        columns: "trigger_catalog name, trigger_schema name, trigger_name name, \
         event_object_catalog name, event_object_schema name, event_object_table \
         name, event_object_column name",
        rows: nothing,
    },
    Definition {
        name: "triggers",
        oid: 13440,
        is_view: true,
        columns: "trigger_catalog name, trigger_schema name, trigger_name name, event_manipulation character_data, \
         event_object_catalog name, event_object_schema name, event_object_table name, action_order \
         cardinal_number, action_condition character_data, action_statement character_data, \
         action_orientation character_data, action_timing character_data, action_reference_old_table name, \
         action_reference_new_table name, action_reference_old_row name, action_reference_new_row name, \
         created time_stamp",
        rows: nothing,
    },
    Definition {
        name: "udt_privileges",
        oid: 13445,
        is_view: true,
        columns: "grantor name, grantee name, udt_catalog name, udt_schema \
         name, udt_name name, privilege_type character_data, is_grantable yes_or_no",
        rows: nothing,
    },
    Definition {
        name: "user_defined_types",
        oid: 13463,
        is_view: true,
        columns: "user_defined_type_catalog name, user_defined_type_schema name, \
         user_defined_type_name name, user_defined_type_category character_data, is_instantiable \
         yes_or_no, is_final yes_or_no, ordering_form character_data, ordering_category character_data, \
         ordering_routine_catalog name, ordering_routine_schema name, \
         ordering_routine_name name, reference_type character_data, data_type character_data, \
         character_maximum_length cardinal_number, character_octet_length cardinal_number, \
         character_set_catalog name, character_set_schema name, character_set_name \
         name, collation_catalog name, collation_schema name, collation_name \
         name, numeric_precision cardinal_number, numeric_precision_radix cardinal_number, \
         numeric_scale cardinal_number, datetime_precision cardinal_number, interval_type character_data, \
         interval_precision cardinal_number, source_dtd_identifier name, ref_dtd_identifier \
         name",
        rows: nothing,
    },
    Definition {
        name: "user_mapping_options",
        oid: 13550,
        is_view: true,
        columns: "authorization_identifier name, foreign_server_catalog name, foreign_server_name \
         name, option_name name, option_value character_data",
        rows: nothing,
    },
    Definition {
        name: "user_mappings",
        oid: 13555,
        is_view: true,
        columns: "authorization_identifier name, foreign_server_catalog name, foreign_server_name \
         name",
        rows: nothing,
    },
    Definition {
        name: "views",
        oid: 13483,
        is_view: true,
        columns: "table_catalog name, table_schema name, table_name name, view_definition character_data, check_option \
         character_data, is_updatable yes_or_no, is_insertable_into yes_or_no, is_trigger_updatable \
         yes_or_no, is_trigger_deletable yes_or_no, is_trigger_insertable_into yes_or_no",
        rows: standard::views,
    },
];
