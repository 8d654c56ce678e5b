//! The nine tables (clause 1.3) with their primary keys and the two secondary indexes that the transactions
//! search by.
//!
//! Each table is a module: one constant per column with its position (in the specification's order), and its
//! definition. Identifiers are integers of the size the specification asks for at least. Money that only
//! ever grows (year-to-date sums, balances) has 18 digits instead of 12: clause 1.3.1 sets minimums, and at
//! this engine's speed 12 digits overflow within an hour.

use ankerdb_engine::{
    ColumnDefinition, DataType, Database, Error, IndexPosition, Result, SqlState, Table, TableDefinition,
};
use std::sync::Arc;

/// `numeric(precision, scale)`.
pub(crate) const fn numeric(precision: u8, scale: u8) -> DataType {
    DataType::Numeric { precision, scale }
}
/// Sums of money that only grow.
const SUM: DataType = numeric(18, 2);
/// Rates between 0 and 1.
const RATE: DataType = numeric(4, 4);

macro_rules! table {
    (
        $(#[$doc:meta])* $module:ident $([$hashed:ident])? ($($key:ident),*) {
            $($column:ident: $data_type:expr $(, $nullable:ident)?;)*
        }
        $(index $index:literal ($($index_column:ident),*);)*
    ) => {
        $(#[$doc])*
        pub mod $module {
            use super::*;

            #[allow(non_camel_case_types)]
            enum Position { $($column),* }
            $(
                #[doc = concat!("Position of column ", stringify!($column), ".")]
                pub const $column: usize = Position::$column as usize;
            )*
            /// The table's name.
            pub const NAME: &str = stringify!($module);

            /// The table with its indexes.
            pub fn definition() -> TableDefinition {
                let name = |column: &str| column.to_ascii_lowercase();
                let definition = TableDefinition::new(NAME)
                    $(.column(ColumnDefinition::new(name(stringify!($column)), $data_type)$(.$nullable())?))*;
                let key: Vec<String> = vec![$(name(stringify!($key))),*];
                let key: Vec<&str> = key.iter().map(String::as_str).collect();
                let definition = if key.is_empty() { definition } else { definition.primary_key(&key) };
                $(let definition = definition.$hashed(concat!(stringify!($module), "_pkey"));)?
                $(
                    let columns = [$(name(stringify!($index_column))),*];
                    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
                    let definition = definition.index($index, &columns, false);
                )*
                definition
            }
        }
    };
}
pub(crate) use table;

table! {
    /// WAREHOUSE
    warehouse [hashed] (W_ID) {
        W_ID: DataType::Integer;
        W_NAME: DataType::Varchar(10);
        W_STREET_1: DataType::Varchar(20);
        W_STREET_2: DataType::Varchar(20);
        W_CITY: DataType::Varchar(20);
        W_STATE: DataType::Char(2);
        W_ZIP: DataType::Char(9);
        W_TAX: RATE;
        W_YTD: SUM;
    }
}

table! {
    /// DISTRICT
    district [hashed] (D_W_ID, D_ID) {
        D_ID: DataType::SmallInt;
        D_W_ID: DataType::Integer;
        D_NAME: DataType::Varchar(10);
        D_STREET_1: DataType::Varchar(20);
        D_STREET_2: DataType::Varchar(20);
        D_CITY: DataType::Varchar(20);
        D_STATE: DataType::Char(2);
        D_ZIP: DataType::Char(9);
        D_TAX: RATE;
        D_YTD: SUM;
        D_NEXT_O_ID: DataType::Integer;
    }
}

table! {
    /// CUSTOMER
    customer [hashed] (C_W_ID, C_D_ID, C_ID) {
        C_ID: DataType::Integer;
        C_D_ID: DataType::SmallInt;
        C_W_ID: DataType::Integer;
        C_FIRST: DataType::Varchar(16);
        C_MIDDLE: DataType::Char(2);
        C_LAST: DataType::Varchar(16);
        C_STREET_1: DataType::Varchar(20);
        C_STREET_2: DataType::Varchar(20);
        C_CITY: DataType::Varchar(20);
        C_STATE: DataType::Char(2);
        C_ZIP: DataType::Char(9);
        C_PHONE: DataType::Char(16);
        C_SINCE: DataType::TIMESTAMP;
        C_CREDIT: DataType::Char(2);
        C_CREDIT_LIM: numeric(12, 2);
        C_DISCOUNT: RATE;
        C_BALANCE: SUM;
        C_YTD_PAYMENT: SUM;
        C_PAYMENT_CNT: DataType::Integer;
        C_DELIVERY_CNT: DataType::Integer;
        C_DATA: DataType::Varchar(500);
    }
    index "customer_by_name" (C_W_ID, C_D_ID, C_LAST, C_FIRST);
}

table! {
    /// HISTORY: no primary key (clause 1.3.1).
    history () {
        H_C_ID: DataType::Integer;
        H_C_D_ID: DataType::SmallInt;
        H_C_W_ID: DataType::Integer;
        H_D_ID: DataType::SmallInt;
        H_W_ID: DataType::Integer;
        H_DATE: DataType::TIMESTAMP;
        H_AMOUNT: numeric(6, 2);
        H_DATA: DataType::Varchar(24);
    }
}

table! {
    /// NEW-ORDER
    new_order (NO_W_ID, NO_D_ID, NO_O_ID) {
        NO_O_ID: DataType::Integer;
        NO_D_ID: DataType::SmallInt;
        NO_W_ID: DataType::Integer;
    }
}

table! {
    /// ORDER, under the name `orders` as the word itself is reserved in SQL.
    orders [hashed] (O_W_ID, O_D_ID, O_ID) {
        O_ID: DataType::Integer;
        O_D_ID: DataType::SmallInt;
        O_W_ID: DataType::Integer;
        O_C_ID: DataType::Integer;
        O_ENTRY_D: DataType::TIMESTAMP;
        O_CARRIER_ID: DataType::SmallInt, nullable;
        O_OL_CNT: DataType::SmallInt;
        O_ALL_LOCAL: DataType::SmallInt;
    }
    index "orders_by_customer" (O_W_ID, O_D_ID, O_C_ID, O_ID);
}

table! {
    /// ORDER-LINE
    order_line (OL_W_ID, OL_D_ID, OL_O_ID, OL_NUMBER) {
        OL_O_ID: DataType::Integer;
        OL_D_ID: DataType::SmallInt;
        OL_W_ID: DataType::Integer;
        OL_NUMBER: DataType::SmallInt;
        OL_I_ID: DataType::Integer;
        OL_SUPPLY_W_ID: DataType::Integer;
        OL_DELIVERY_D: DataType::TIMESTAMP, nullable;
        OL_QUANTITY: DataType::SmallInt;
        OL_AMOUNT: numeric(6, 2);
        OL_DIST_INFO: DataType::Char(24);
    }
}

table! {
    /// ITEM
    item [hashed] (I_ID) {
        I_ID: DataType::Integer;
        I_IM_ID: DataType::Integer;
        I_NAME: DataType::Varchar(24);
        I_PRICE: numeric(5, 2);
        I_DATA: DataType::Varchar(50);
    }
}

table! {
    /// STOCK
    stock [hashed] (S_W_ID, S_I_ID) {
        S_I_ID: DataType::Integer;
        S_W_ID: DataType::Integer;
        S_QUANTITY: DataType::SmallInt;
        S_DIST_01: DataType::Char(24);
        S_DIST_02: DataType::Char(24);
        S_DIST_03: DataType::Char(24);
        S_DIST_04: DataType::Char(24);
        S_DIST_05: DataType::Char(24);
        S_DIST_06: DataType::Char(24);
        S_DIST_07: DataType::Char(24);
        S_DIST_08: DataType::Char(24);
        S_DIST_09: DataType::Char(24);
        S_DIST_10: DataType::Char(24);
        S_YTD: DataType::Integer;
        S_ORDER_CNT: DataType::Integer;
        S_REMOTE_CNT: DataType::Integer;
        S_DATA: DataType::Varchar(50);
    }
}

/// Position of the primary key in the list of a table's indexes.
pub const PRIMARY: IndexPosition = IndexPosition(0);

/// Handles of the nine tables in one database, so that procedures look up no names.
pub struct TpccTables {
    /// WAREHOUSE
    pub warehouse: Arc<Table>,
    /// DISTRICT
    pub district: Arc<Table>,
    /// CUSTOMER
    pub customer: Arc<Table>,
    /// HISTORY
    pub history: Arc<Table>,
    /// NEW-ORDER
    pub new_order: Arc<Table>,
    /// ORDER
    pub orders: Arc<Table>,
    /// ORDER-LINE
    pub order_line: Arc<Table>,
    /// ITEM
    pub item: Arc<Table>,
    /// STOCK
    pub stock: Arc<Table>,
    /// Position of the index over customers' names.
    pub customer_by_name: IndexPosition,
    /// Position of the index over customers' orders.
    pub orders_by_customer: IndexPosition,
}

impl TpccTables {
    /// Creates the nine tables.
    ///
    /// # Errors
    /// 42P07 if one exists.
    pub fn create(database: &Database) -> Result<TpccTables> {
        for definition in [
            warehouse::definition(),
            district::definition(),
            customer::definition(),
            history::definition(),
            new_order::definition(),
            orders::definition(),
            order_line::definition(),
            item::definition(),
            stock::definition(),
        ] {
            database.create_table(definition)?;
        }
        TpccTables::open(database)
    }

    /// Finds the nine tables.
    ///
    /// # Errors
    /// 42P01 or 42704 if one, or an index, is missing.
    pub fn open(database: &Database) -> Result<TpccTables> {
        let catalog = database.catalog();
        let customer = catalog.table(customer::NAME)?;
        let orders = catalog.table(orders::NAME)?;
        Ok(TpccTables {
            warehouse: catalog.table(warehouse::NAME)?,
            district: catalog.table(district::NAME)?,
            history: catalog.table(history::NAME)?,
            new_order: catalog.table(new_order::NAME)?,
            order_line: catalog.table(order_line::NAME)?,
            item: catalog.table(item::NAME)?,
            stock: catalog.table(stock::NAME)?,
            customer_by_name: index_position(&customer, "customer_by_name")?,
            orders_by_customer: index_position(&orders, "orders_by_customer")?,
            customer,
            orders,
        })
    }
}

fn index_position(table: &Table, name: &str) -> Result<IndexPosition> {
    let mut indexes = table.usable_indexes();
    indexes.find(|(_, index)| index.definition().name == name).map(|(position, _)| position).ok_or_else(
        || {
            let message = format!("index \"{name}\" of table \"{}\" does not exist", table.name());
            Error::new(SqlState::UndefinedObject, message)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_the_positions_of_their_columns() {
        let stock = stock::definition();
        assert_eq!(stock.position("s_dist_07"), Some(stock::S_DIST_07));
        assert_eq!(stock.position("s_data"), Some(stock::S_DATA));
        assert_eq!(stock.indexes[PRIMARY.0].columns, [stock::S_W_ID, stock::S_I_ID]);
        let customer = customer::definition();
        assert_eq!(customer.columns.len(), 21);
        assert_eq!(customer.indexes[1].columns[2], customer::C_LAST);
    }

    #[test]
    fn only_carrier_and_delivery_date_may_be_null() {
        let nullable: Vec<String> = [orders::definition(), order_line::definition(), customer::definition()]
            .into_iter()
            .flat_map(|table| table.columns)
            .filter(|column| column.nullable)
            .map(|column| column.name)
            .collect();
        assert_eq!(nullable, ["o_carrier_id", "ol_delivery_d"]);
    }
}
