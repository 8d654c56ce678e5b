//! The relations of schema `pg_catalog`: their columns as PostgreSQL 15 has them.
//!
//! Those whose rows are [`nothing`] describe what AnKerDB does not have, such as triggers, or what only users of PostgreSQL make, such as
//! operators: those of the system are not listed. Other relations that PostgreSQL fills are either made of what is there, or left
//! out.

use super::{Definition, nothing};
use super::{
    casts, classes, comments, constraints, extensions, functions, objects, operator_classes, ranges,
    sequences, settings, types, user_types, views,
};

/// The columns of the statistics of tables.
const TABLE_STATISTICS: &str = "relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, idx_scan int8, \
         idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_tup_hot_upd int8, n_live_tup \
         int8, n_dead_tup int8, n_mod_since_analyze int8, n_ins_since_vacuum int8, last_vacuum timestamptz, \
         last_autovacuum timestamptz, last_analyze timestamptz, last_autoanalyze timestamptz, vacuum_count \
         int8, autovacuum_count int8, analyze_count int8, autoanalyze_count int8";

const INDEX_STATISTICS: &str = "relid oid, indexrelid oid, schemaname name, relname name, indexrelname name, idx_scan int8, \
         idx_tup_read int8, idx_tup_fetch int8";

const TABLE_READS: &str = "relid oid, schemaname name, relname name, heap_blks_read int8, heap_blks_hit int8, idx_blks_read \
         int8, idx_blks_hit int8, toast_blks_read int8, toast_blks_hit int8, tidx_blks_read int8, tidx_blks_hit int8";

pub(super) const RELATIONS: &[Definition] = &[
    Definition {
        name: "pg_aggregate",
        oid: 2600,
        is_view: false,
        columns: "aggfnoid regproc, aggkind \"char\", aggnumdirectargs int2, aggtransfn regproc, aggfinalfn regproc, \
         aggcombinefn regproc, aggserialfn regproc, aggdeserialfn regproc, aggmtransfn regproc, \
         aggminvtransfn regproc, aggmfinalfn regproc, aggfinalextra bool, aggmfinalextra bool, aggfinalmodify \
         \"char\", aggmfinalmodify \"char\", aggsortop oid, aggtranstype oid, aggtransspace int4, \
         aggmtranstype oid, aggmtransspace int4, agginitval text, aggminitval text",
        rows: nothing,
    },
    Definition {
        name: "pg_am",
        oid: 2601,
        is_view: false,
        columns: "oid oid, amname name, amhandler regproc, amtype \"char\"",
        rows: objects::access_methods,
    },
    Definition {
        name: "pg_amop",
        oid: 2602,
        is_view: false,
        columns: "oid oid, amopfamily oid, amoplefttype oid, amoprighttype oid, amopstrategy int2, amoppurpose \
         \"char\", amopopr oid, amopmethod oid, amopsortfamily oid",
        rows: nothing,
    },
    Definition {
        name: "pg_amproc",
        oid: 2603,
        is_view: false,
        columns: "oid oid, amprocfamily oid, amproclefttype oid, amprocrighttype oid, amprocnum int2, amproc regproc",
        rows: nothing,
    },
    Definition {
        name: "pg_attrdef",
        oid: 2604,
        is_view: false,
        columns: "oid oid, adrelid oid, adnum int2, adbin pg_node_tree",
        rows: constraints::defaults,
    },
    Definition {
        name: "pg_attribute",
        oid: 1249,
        is_view: false,
        columns: "attrelid oid, attname name, atttypid oid, attstattarget int4, attlen int2, attnum int2, attndims \
         int4, attcacheoff int4, atttypmod int4, attbyval bool, attalign \"char\", attstorage \"char\", \
         attcompression \"char\", attnotnull bool, atthasdef bool, atthasmissing bool, attidentity \"char\", \
         attgenerated \"char\", attisdropped bool, attislocal bool, attinhcount int4, attcollation oid, \
         attacl aclitem[], attoptions text[], attfdwoptions text[], attmissingval anyarray",
        rows: classes::attributes,
    },
    Definition {
        name: "pg_auth_members",
        oid: 1261,
        is_view: false,
        columns: "roleid oid, member oid, grantor oid, admin_option bool",
        rows: nothing,
    },
    Definition {
        name: "pg_authid",
        oid: 1260,
        is_view: false,
        columns: "oid oid, rolname name, rolsuper bool, rolinherit bool, rolcreaterole bool, rolcreatedb bool, \
         rolcanlogin bool, rolreplication bool, rolbypassrls bool, rolconnlimit int4, rolpassword text, \
         rolvaliduntil timestamptz",
        rows: objects::authids,
    },
    Definition {
        name: "pg_available_extension_versions",
        oid: 12085,
        is_view: true,
        columns: "name name, version text, installed bool, superuser bool, trusted bool, relocatable bool, schema \
         name, requires name[], comment text",
        rows: nothing,
    },
    Definition {
        name: "pg_available_extensions",
        oid: 12081,
        is_view: true,
        columns: "name name, default_version text, installed_version text, comment text",
        rows: extensions::available,
    },
    Definition {
        name: "pg_cast",
        oid: 2605,
        is_view: false,
        columns: "oid oid, castsource oid, casttarget oid, castfunc oid, castcontext \"char\", castmethod \"char\"",
        rows: casts::casts,
    },
    Definition {
        name: "pg_class",
        oid: 1259,
        is_view: false,
        columns: "oid oid, relname name, relnamespace oid, reltype oid, reloftype oid, relowner oid, relam oid, \
         relfilenode oid, reltablespace oid, relpages int4, reltuples float4, relallvisible int4, \
         reltoastrelid oid, relhasindex bool, relisshared bool, relpersistence \"char\", relkind \"char\", \
         relnatts int2, relchecks int2, relhasrules bool, relhastriggers bool, relhassubclass bool, \
         relrowsecurity bool, relforcerowsecurity bool, relispopulated bool, relreplident \"char\", \
         relispartition bool, relrewrite oid, relfrozenxid xid, relminmxid xid, relacl aclitem[], reloptions \
         text[], relpartbound pg_node_tree",
        rows: classes::classes,
    },
    Definition {
        name: "pg_collation",
        oid: 3456,
        is_view: false,
        columns: "oid oid, collname name, collnamespace oid, collowner oid, collprovider \"char\", collisdeterministic \
         bool, collencoding int4, collcollate text, collctype text, colliculocale text, collversion text",
        rows: types::collations,
    },
    Definition {
        name: "pg_constraint",
        oid: 2606,
        is_view: false,
        columns: "oid oid, conname name, connamespace oid, contype \"char\", condeferrable bool, condeferred bool, \
         convalidated bool, conrelid oid, contypid oid, conindid oid, conparentid oid, confrelid oid, \
         confupdtype \"char\", confdeltype \"char\", confmatchtype \"char\", conislocal bool, coninhcount \
         int4, connoinherit bool, conkey int2[], confkey int2[], conpfeqop oid[], conppeqop oid[], conffeqop \
         oid[], confdelsetcols int2[], conexclop oid[], conbin pg_node_tree",
        rows: constraints::constraints,
    },
    Definition {
        name: "pg_conversion",
        oid: 2607,
        is_view: false,
        columns: "oid oid, conname name, connamespace oid, conowner oid, conforencoding int4, contoencoding int4, \
         conproc regproc, condefault bool",
        rows: nothing,
    },
    Definition {
        name: "pg_database",
        oid: 1262,
        is_view: false,
        columns: "oid oid, datname name, datdba oid, encoding int4, datlocprovider \"char\", datistemplate bool, \
         datallowconn bool, datconnlimit int4, datfrozenxid xid, datminmxid xid, dattablespace oid, \
         datcollate text, datctype text, daticulocale text, datcollversion text, datacl aclitem[]",
        rows: objects::databases,
    },
    Definition {
        name: "pg_db_role_setting",
        oid: 2964,
        is_view: false,
        columns: "setdatabase oid, setrole oid, setconfig text[]",
        rows: nothing,
    },
    Definition {
        name: "pg_default_acl",
        oid: 826,
        is_view: false,
        columns: "oid oid, defaclrole oid, defaclnamespace oid, defaclobjtype \"char\", defaclacl aclitem[]",
        rows: nothing,
    },
    Definition {
        name: "pg_depend",
        oid: 2608,
        is_view: false,
        columns: "classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, refobjsubid int4, deptype \
         \"char\"",
        rows: sequences::dependencies,
    },
    Definition {
        name: "pg_description",
        oid: 2609,
        is_view: false,
        columns: "objoid oid, classoid oid, objsubid int4, description text",
        rows: comments::descriptions,
    },
    Definition {
        name: "pg_enum",
        oid: 3501,
        is_view: false,
        columns: "oid oid, enumtypid oid, enumsortorder float4, enumlabel name",
        rows: user_types::labels,
    },
    Definition {
        name: "pg_event_trigger",
        oid: 3466,
        is_view: false,
        columns: "oid oid, evtname name, evtevent name, evtowner oid, evtfoid oid, evtenabled \"char\", evttags text[]",
        rows: nothing,
    },
    Definition {
        name: "pg_extension",
        oid: 3079,
        is_view: false,
        columns: "oid oid, extname name, extowner oid, extnamespace oid, extrelocatable bool, extversion text, \
         extconfig oid[], extcondition text[]",
        rows: extensions::installed,
    },
    Definition {
        name: "pg_foreign_data_wrapper",
        oid: 2328,
        is_view: false,
        columns: "oid oid, fdwname name, fdwowner oid, fdwhandler oid, fdwvalidator oid, fdwacl aclitem[], fdwoptions \
         text[]",
        rows: nothing,
    },
    Definition {
        name: "pg_foreign_server",
        oid: 1417,
        is_view: false,
        columns: "oid oid, srvname name, srvowner oid, srvfdw oid, srvtype text, srvversion text, srvacl aclitem[], \
         srvoptions text[]",
        rows: nothing,
    },
    Definition {
        name: "pg_foreign_table",
        oid: 3118,
        is_view: false,
        columns: "ftrelid oid, ftserver oid, ftoptions text[]",
        rows: nothing,
    },
    Definition {
        name: "pg_group",
        oid: 12010,
        is_view: true,
        columns: "groname name, grosysid oid, grolist oid[]",
        rows: nothing,
    },
    Definition {
        name: "pg_index",
        oid: 2610,
        is_view: false,
        columns: "indexrelid oid, indrelid oid, indnatts int2, indnkeyatts int2, indisunique bool, indnullsnotdistinct \
         bool, indisprimary bool, indisexclusion bool, indimmediate bool, indisclustered bool, indisvalid \
         bool, indcheckxmin bool, indisready bool, indislive bool, indisreplident bool, indkey int2vector, \
         indcollation oidvector, indclass oidvector, indoption int2vector, indexprs pg_node_tree, indpred \
         pg_node_tree",
        rows: constraints::indexes,
    },
    Definition {
        name: "pg_indexes",
        oid: 12043,
        is_view: true,
        columns: "schemaname name, tablename name, indexname name, tablespace name, indexdef text",
        rows: views::indexes,
    },
    Definition {
        name: "pg_inherits",
        oid: 2611,
        is_view: false,
        columns: "inhrelid oid, inhparent oid, inhseqno int4, inhdetachpending bool",
        rows: nothing,
    },
    Definition {
        name: "pg_init_privs",
        oid: 3394,
        is_view: false,
        columns: "objoid oid, classoid oid, objsubid int4, privtype \"char\", initprivs aclitem[]",
        rows: nothing,
    },
    Definition {
        name: "pg_language",
        oid: 2612,
        is_view: false,
        columns: "oid oid, lanname name, lanowner oid, lanispl bool, lanpltrusted bool, lanplcallfoid oid, laninline \
         oid, lanvalidator oid, lanacl aclitem[]",
        rows: objects::languages,
    },
    Definition {
        name: "pg_largeobject",
        oid: 2613,
        is_view: false,
        columns: "loid oid, pageno int4, data bytea",
        rows: nothing,
    },
    Definition {
        name: "pg_largeobject_metadata",
        oid: 2995,
        is_view: false,
        columns: "oid oid, lomowner oid, lomacl aclitem[]",
        rows: nothing,
    },
    Definition {
        name: "pg_matviews",
        oid: 12038,
        is_view: true,
        columns: "schemaname name, matviewname name, matviewowner name, tablespace name, hasindexes bool, ispopulated \
         bool, definition text",
        rows: views::materialized_views,
    },
    Definition {
        name: "pg_namespace",
        oid: 2615,
        is_view: false,
        columns: "oid oid, nspname name, nspowner oid, nspacl aclitem[]",
        rows: objects::namespaces,
    },
    Definition {
        name: "pg_opclass",
        oid: 2616,
        is_view: false,
        columns: "oid oid, opcmethod oid, opcname name, opcnamespace oid, opcowner oid, opcfamily oid, opcintype oid, \
         opcdefault bool, opckeytype oid",
        rows: operator_classes::operator_classes,
    },
    Definition {
        name: "pg_operator",
        oid: 2617,
        is_view: false,
        columns: "oid oid, oprname name, oprnamespace oid, oprowner oid, oprkind \"char\", oprcanmerge bool, \
         oprcanhash bool, oprleft oid, oprright oid, oprresult oid, oprcom oid, oprnegate oid, oprcode \
         regproc, oprrest regproc, oprjoin regproc",
        rows: nothing,
    },
    Definition {
        name: "pg_opfamily",
        oid: 2753,
        is_view: false,
        columns: "oid oid, opfmethod oid, opfname name, opfnamespace oid, opfowner oid",
        rows: nothing,
    },
    Definition {
        name: "pg_parameter_acl",
        oid: 6243,
        is_view: false,
        columns: "oid oid, parname text, paracl aclitem[]",
        rows: nothing,
    },
    Definition {
        name: "pg_partitioned_table",
        oid: 3350,
        is_view: false,
        columns: "partrelid oid, partstrat \"char\", partnatts int2, partdefid oid, partattrs int2vector, partclass \
         oidvector, partcollation oidvector, partexprs pg_node_tree",
        rows: nothing,
    },
    Definition {
        name: "pg_policies",
        oid: 12018,
        is_view: true,
        columns: "schemaname name, tablename name, policyname name, permissive text, roles name[], cmd text, qual \
         text, with_check text",
        rows: nothing,
    },
    Definition {
        name: "pg_policy",
        oid: 3256,
        is_view: false,
        columns: "oid oid, polname name, polrelid oid, polcmd \"char\", polpermissive bool, polroles oid[], polqual \
         pg_node_tree, polwithcheck pg_node_tree",
        rows: nothing,
    },
    Definition {
        name: "pg_prepared_xacts",
        oid: 12090,
        is_view: true,
        columns: "transaction xid, gid text, prepared timestamptz, owner name, database name",
        rows: nothing,
    },
    Definition {
        name: "pg_proc",
        oid: 1255,
        is_view: false,
        columns: "oid oid, proname name, pronamespace oid, proowner oid, prolang oid, procost float4, prorows float4, \
         provariadic oid, prosupport regproc, prokind \"char\", prosecdef bool, proleakproof bool, \
         proisstrict bool, proretset bool, provolatile \"char\", proparallel \"char\", pronargs int2, \
         pronargdefaults int2, prorettype oid, proargtypes oidvector, proallargtypes oid[], proargmodes \
         \"char\"[], proargnames text[], proargdefaults pg_node_tree, protrftypes oid[], prosrc text, probin \
         text, prosqlbody pg_node_tree, proconfig text[], proacl aclitem[]",
        rows: functions::functions,
    },
    Definition {
        name: "pg_publication",
        oid: 6104,
        is_view: false,
        columns: "oid oid, pubname name, pubowner oid, puballtables bool, pubinsert bool, pubupdate bool, pubdelete \
         bool, pubtruncate bool, pubviaroot bool",
        rows: nothing,
    },
    Definition {
        name: "pg_publication_namespace",
        oid: 6237,
        is_view: false,
        columns: "oid oid, pnpubid oid, pnnspid oid",
        rows: nothing,
    },
    Definition {
        name: "pg_publication_rel",
        oid: 6106,
        is_view: false,
        columns: "oid oid, prpubid oid, prrelid oid, prqual pg_node_tree, prattrs int2vector",
        rows: nothing,
    },
    Definition {
        name: "pg_publication_tables",
        oid: 12068,
        is_view: true,
        columns: "pubname name, schemaname name, tablename name, attnames name[], rowfilter text",
        rows: nothing,
    },
    Definition {
        name: "pg_range",
        oid: 3541,
        is_view: false,
        columns: "rngtypid oid, rngsubtype oid, rngmultitypid oid, rngcollation oid, rngsubopc oid, rngcanonical \
         regproc, rngsubdiff regproc",
        rows: ranges::ranges,
    },
    Definition {
        name: "pg_replication_origin",
        oid: 6000,
        is_view: false,
        columns: "roident oid, roname text",
        rows: nothing,
    },
    Definition {
        name: "pg_replication_slots",
        oid: 12257,
        is_view: true,
        columns: "slot_name name, plugin name, slot_type text, datoid oid, database name, temporary bool, active bool, \
         active_pid int4, xmin xid, catalog_xmin xid, restart_lsn text, confirmed_flush_lsn text, wal_status \
         text, safe_wal_size int8, two_phase bool",
        rows: nothing,
    },
    Definition {
        name: "pg_rewrite",
        oid: 2618,
        is_view: false,
        columns: "oid oid, rulename name, ev_class oid, ev_type \"char\", ev_enabled \"char\", is_instead bool, \
         ev_qual pg_node_tree, ev_action pg_node_tree",
        rows: views::rules,
    },
    Definition {
        name: "pg_roles",
        oid: 12000,
        is_view: true,
        columns: "rolname name, rolsuper bool, rolinherit bool, rolcreaterole bool, rolcreatedb bool, rolcanlogin \
         bool, rolreplication bool, rolconnlimit int4, rolpassword text, rolvaliduntil timestamptz, \
         rolbypassrls bool, rolconfig text[], oid oid",
        rows: objects::roles,
    },
    Definition {
        name: "pg_rules",
        oid: 12023,
        is_view: true,
        columns: "schemaname name, tablename name, rulename name, definition text",
        rows: nothing,
    },
    Definition {
        name: "pg_seclabel",
        oid: 3596,
        is_view: false,
        columns: "objoid oid, classoid oid, objsubid int4, provider text, label text",
        rows: nothing,
    },
    Definition {
        name: "pg_seclabels",
        oid: 12099,
        is_view: true,
        columns: "objoid oid, classoid oid, objsubid int4, objtype text, objnamespace oid, objname text, provider \
         text, label text",
        rows: nothing,
    },
    Definition {
        name: "pg_sequence",
        oid: 2224,
        is_view: false,
        columns: "seqrelid oid, seqtypid oid, seqstart int8, seqincrement int8, seqmax int8, seqmin int8, seqcache \
         int8, seqcycle bool",
        rows: sequences::sequences,
    },
    Definition {
        name: "pg_sequences",
        oid: 12048,
        is_view: true,
        columns: "schemaname name, sequencename name, sequenceowner name, data_type regtype, start_value int8, \
         min_value int8, max_value int8, increment_by int8, cycle bool, cache_size int8, last_value int8",
        rows: sequences::sequence_view,
    },
    Definition {
        name: "pg_settings",
        oid: 12104,
        is_view: true,
        columns: "name text, setting text, unit text, category text, short_desc text, extra_desc text, context text, \
         vartype text, source text, min_val text, max_val text, enumvals text[], boot_val text, reset_val \
         text, sourcefile text, sourceline int4, pending_restart bool",
        rows: settings::settings,
    },
    Definition {
        name: "pg_shadow",
        oid: 12005,
        is_view: true,
        columns: "usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, usebypassrls bool, passwd \
         text, valuntil timestamptz, useconfig text[]",
        rows: objects::users,
    },
    Definition {
        name: "pg_shdepend",
        oid: 1214,
        is_view: false,
        columns: "dbid oid, classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, deptype \"char\"",
        rows: nothing,
    },
    Definition {
        name: "pg_shdescription",
        oid: 2396,
        is_view: false,
        columns: "objoid oid, classoid oid, description text",
        rows: comments::shared_descriptions,
    },
    Definition {
        name: "pg_shseclabel",
        oid: 3592,
        is_view: false,
        columns: "objoid oid, classoid oid, provider text, label text",
        rows: nothing,
    },
    Definition {
        name: "pg_stat_all_tables",
        oid: 12142,
        is_view: true,
        columns: TABLE_STATISTICS,
        rows: views::table_statistics,
    },
    Definition {
        name: "pg_stat_all_indexes",
        oid: 12183,
        is_view: true,
        columns: INDEX_STATISTICS,
        rows: views::index_statistics,
    },
    Definition {
        name: "pg_stat_user_indexes",
        oid: 12192,
        is_view: true,
        columns: INDEX_STATISTICS,
        rows: views::index_statistics,
    },
    Definition {
        name: "pg_stat_user_tables",
        oid: 12161,
        is_view: true,
        columns: TABLE_STATISTICS,
        rows: views::table_statistics,
    },
    Definition {
        name: "pg_statio_all_tables",
        oid: 12170,
        is_view: true,
        columns: TABLE_READS,
        rows: views::table_reads,
    },
    Definition {
        name: "pg_statio_user_tables",
        oid: 12179,
        is_view: true,
        columns: TABLE_READS,
        rows: views::table_reads,
    },
    Definition {
        name: "pg_statistic_ext",
        oid: 3381,
        is_view: false,
        columns: "oid oid, stxrelid oid, stxname name, stxnamespace oid, stxowner oid, stxstattarget int4, stxkeys \
         int2vector, stxkind \"char\"[], stxexprs pg_node_tree",
        rows: nothing,
    },
    Definition {
        name: "pg_statistic_ext_data",
        oid: 3429,
        is_view: false,
        columns: "stxoid oid, stxdinherit bool, stxdndistinct text, stxddependencies text, stxdmcv \
         text, stxdexpr text[]",
        rows: nothing,
    },
    Definition {
        name: "pg_stats_ext",
        oid: 12058,
        is_view: true,
        columns: "schemaname name, tablename name, statistics_schemaname name, statistics_name name, statistics_owner \
         name, attnames name[], exprs text[], kinds \"char\"[], inherited bool, n_distinct text, \
         dependencies text, most_common_vals text[], most_common_val_nulls bool[], \
         most_common_freqs float8[], most_common_base_freqs float8[]",
        rows: nothing,
    },
    Definition {
        name: "pg_subscription",
        oid: 6100,
        is_view: false,
        columns: "oid oid, subdbid oid, subskiplsn pg_lsn, subname name, subowner oid, subenabled bool, subbinary \
         bool, substream bool, subtwophasestate \"char\", subdisableonerr bool, subconninfo text, subslotname \
         name, subsynccommit text, subpublications text[]",
        rows: nothing,
    },
    Definition {
        name: "pg_subscription_rel",
        oid: 6102,
        is_view: false,
        columns: "srsubid oid, srrelid oid, srsubstate \"char\", srsublsn text",
        rows: nothing,
    },
    Definition {
        name: "pg_tables",
        oid: 12033,
        is_view: true,
        columns: "schemaname name, tablename name, tableowner name, tablespace name, hasindexes bool, hasrules bool, \
         hastriggers bool, rowsecurity bool",
        rows: views::tables,
    },
    Definition {
        name: "pg_tablespace",
        oid: 1213,
        is_view: false,
        columns: "oid oid, spcname name, spcowner oid, spcacl aclitem[], spcoptions text[]",
        rows: objects::tablespaces,
    },
    Definition {
        name: "pg_transform",
        oid: 3576,
        is_view: false,
        columns: "oid oid, trftype oid, trflang oid, trffromsql regproc, trftosql regproc",
        rows: nothing,
    },
    Definition {
        name: "pg_trigger",
        oid: 2620,
        is_view: false,
        columns: "oid oid, tgrelid oid, tgparentid oid, tgname name, tgfoid oid, tgtype int2, tgenabled \"char\", \
         tgisinternal bool, tgconstrrelid oid, tgconstrindid oid, tgconstraint oid, tgdeferrable bool, \
         tginitdeferred bool, tgnargs int2, tgattr int2vector, tgargs bytea, tgqual pg_node_tree, tgoldtable \
         name, tgnewtable name",
        rows: nothing,
    },
    Definition {
        name: "pg_ts_config",
        oid: 3602,
        is_view: false,
        columns: "oid oid, cfgname name, cfgnamespace oid, cfgowner oid, cfgparser oid",
        rows: nothing,
    },
    Definition {
        name: "pg_ts_config_map",
        oid: 3603,
        is_view: false,
        columns: "mapcfg oid, maptokentype int4, mapseqno int4, mapdict oid",
        rows: nothing,
    },
    Definition {
        name: "pg_ts_dict",
        oid: 3600,
        is_view: false,
        columns: "oid oid, dictname name, dictnamespace oid, dictowner oid, dicttemplate oid, dictinitoption text",
        rows: nothing,
    },
    Definition {
        name: "pg_ts_parser",
        oid: 3601,
        is_view: false,
        columns: "oid oid, prsname name, prsnamespace oid, prsstart regproc, prstoken regproc, prsend regproc, \
         prsheadline regproc, prslextype regproc",
        rows: nothing,
    },
    Definition {
        name: "pg_ts_template",
        oid: 3764,
        is_view: false,
        columns: "oid oid, tmplname name, tmplnamespace oid, tmplinit regproc, tmpllexize regproc",
        rows: nothing,
    },
    Definition {
        name: "pg_type",
        oid: 1247,
        is_view: false,
        columns: "oid oid, typname name, typnamespace oid, typowner oid, typlen int2, typbyval bool, typtype \"char\", \
         typcategory \"char\", typispreferred bool, typisdefined bool, typdelim \"char\", typrelid oid, \
         typsubscript regproc, typelem oid, typarray oid, typinput regproc, typoutput regproc, typreceive \
         regproc, typsend regproc, typmodin regproc, typmodout regproc, typanalyze regproc, typalign \
         \"char\", typstorage \"char\", typnotnull bool, typbasetype oid, typtypmod int4, typndims int4, \
         typcollation oid, typdefaultbin pg_node_tree, typdefault text, typacl aclitem[]",
        rows: types::types,
    },
    Definition {
        name: "pg_user",
        oid: 12014,
        is_view: true,
        columns: "usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, usebypassrls bool, passwd \
         text, valuntil timestamptz, useconfig text[]",
        rows: objects::users,
    },
    Definition {
        name: "pg_user_mapping",
        oid: 1418,
        is_view: false,
        columns: "oid oid, umuser oid, umserver oid, umoptions text[]",
        rows: nothing,
    },
    Definition {
        name: "pg_user_mappings",
        oid: 12327,
        is_view: true,
        columns: "umid oid, srvid oid, srvname name, umuser oid, usename name, umoptions text[]",
        rows: nothing,
    },
    Definition {
        name: "pg_views",
        oid: 12028,
        is_view: true,
        columns: "schemaname name, viewname name, viewowner name, definition text",
        rows: views::views,
    },
];
