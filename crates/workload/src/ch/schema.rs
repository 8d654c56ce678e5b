//! The three tables that CH-benCHmark adds to TPC-C's nine: SUPPLIER, NATION and REGION, those of TPC-H.
//!
//! Nothing refers to them by a column of its own. A row of STOCK belongs to the supplier with the number
//! `(s_w_id * s_i_id) mod 10000`; a customer lives in the nation whose number is the ASCII code of the first letter of C_STATE.

use crate::tpcc::schema::{numeric, table};
use ankerdb_engine::{ColumnDefinition, DataType, Database, Result, Table, TableDefinition};
use std::sync::Arc;

table! {
    /// SUPPLIER
    supplier (SU_SUPPKEY) {
        SU_SUPPKEY: DataType::Integer;
        SU_NAME: DataType::Char(25);
        SU_ADDRESS: DataType::Varchar(40);
        SU_NATIONKEY: DataType::Integer;
        SU_PHONE: DataType::Char(15);
        SU_ACCTBAL: numeric(12, 2);
        SU_COMMENT: DataType::Varchar(101);
    }
}

table! {
    /// NATION
    nation (N_NATIONKEY) {
        N_NATIONKEY: DataType::Integer;
        N_NAME: DataType::Char(25);
        N_REGIONKEY: DataType::Integer;
        N_COMMENT: DataType::Varchar(152);
    }
}

table! {
    /// REGION
    region (R_REGIONKEY) {
        R_REGIONKEY: DataType::Integer;
        R_NAME: DataType::Char(55);
        R_COMMENT: DataType::Varchar(152);
    }
}

/// Handles of the three tables in one database.
pub struct ChTables {
    /// SUPPLIER
    pub supplier: Arc<Table>,
    /// NATION
    pub nation: Arc<Table>,
    /// REGION
    pub region: Arc<Table>,
}

impl ChTables {
    /// Creates the three tables.
    ///
    /// # Errors
    /// 42P07 if one exists.
    pub fn create(database: &Database) -> Result<ChTables> {
        Ok(ChTables {
            supplier: database.create_table(supplier::definition())?,
            nation: database.create_table(nation::definition())?,
            region: database.create_table(region::definition())?,
        })
    }
}
