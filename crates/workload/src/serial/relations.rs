//! The relations of a database: where each is, and where the fields are that transactions and queries look at.

use super::keys;
use super::layout::{Layout, Long, Resolve, Small, Text, Words};
use crate::ch::schema::{nation, region, supplier};
use crate::tpcc::schema::{
    customer, district, history, item, new_order, order_line, orders, stock, warehouse,
};
use ankerdb_engine::{Error, Result};
use ankerdb_serial::RelationId;

/// Position of the primary key among the indexes of a relation.
pub const PRIMARY: usize = 0;
/// Position of the index over customers' names.
pub const CUSTOMER_BY_NAME: usize = 1;
/// Position of the index over customers' orders.
pub const ORDERS_BY_CUSTOMER: usize = 1;

/// A relation that can be loaded.
pub(super) trait Handle: Sized {
    /// The name of its table.
    const NAME: &'static str;
    /// How many indexes it has.
    const INDEXES: usize;

    /// The relation in its place.
    fn resolve(relation: RelationId, layout: &Layout) -> Result<Self>;

    /// The keys of a tuple, one for each index.
    fn keys(&self, tuple: &[u64]) -> Result<Vec<u64>>;
}

macro_rules! relation {
    ($(#[$doc:meta])* $name:ident $module:ident { $($field:ident: $kind:ty = $column:ident;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            /// Its position in the database.
            pub relation: RelationId,
            /// Words of a tuple.
            pub words: usize,
            $(#[doc = concat!("From column ", stringify!($column), " on.")] pub $field: $kind,)*
        }

        impl $name {
            fn resolve_fields(relation: RelationId, layout: &Layout) -> Result<$name> {
                let words = layout.words();
                Ok($name { relation, words, $($field: Resolve::resolve(layout, $module::$column)?,)* })
            }
        }
    };
}

macro_rules! handle {
    ($name:ident, $module:ident, $indexes:literal, $keys:expr) => {
        impl Handle for $name {
            const NAME: &'static str = $module::NAME;
            const INDEXES: usize = $indexes;

            fn resolve(relation: RelationId, layout: &Layout) -> Result<$name> {
                $name::resolve_fields(relation, layout)
            }

            fn keys(&self, tuple: &[u64]) -> Result<Vec<u64>> {
                let keys: fn(&$name, &[u64]) -> Result<Vec<u64>> = $keys;
                keys(self, tuple)
            }
        }
    };
}

relation! {
    /// WAREHOUSE
    WarehouseRelation warehouse {
        number: Small = W_ID;
        name: Text = W_NAME;
        address: [Text; 5] = W_STREET_1;
        tax: Long = W_TAX;
        ytd: Long = W_YTD;
    }
}
handle!(WarehouseRelation, warehouse, 1, |fields, tuple| Ok(vec![keys::number(fields.number.get(tuple))]));

relation! {
    /// DISTRICT
    DistrictRelation district {
        number: Small = D_ID;
        warehouse: Small = D_W_ID;
        name: Text = D_NAME;
        address: [Text; 5] = D_STREET_1;
        tax: Long = D_TAX;
        ytd: Long = D_YTD;
        next_order: Small = D_NEXT_O_ID;
    }
}
handle!(DistrictRelation, district, 1, |fields, tuple| {
    Ok(vec![keys::district(fields.warehouse.get(tuple), fields.number.get(tuple))])
});

relation! {
    /// CUSTOMER
    CustomerRelation customer {
        number: Small = C_ID;
        district: Small = C_D_ID;
        warehouse: Small = C_W_ID;
        first: Text = C_FIRST;
        last: Text = C_LAST;
        names_to_phone: [Text; 9] = C_FIRST;
        state: Text = C_STATE;
        credit: Text = C_CREDIT;
        credit_limit: Long = C_CREDIT_LIM;
        discount: Long = C_DISCOUNT;
        balance: Long = C_BALANCE;
        ytd_payment: Long = C_YTD_PAYMENT;
        payments: Small = C_PAYMENT_CNT;
        deliveries: Small = C_DELIVERY_CNT;
        data: Text = C_DATA;
    }
}
handle!(CustomerRelation, customer, 2, |fields, tuple| {
    let (warehouse, district) = (fields.warehouse.get(tuple), fields.district.get(tuple));
    let (number, mut buffer) = (fields.number.get(tuple), [0; 16]);
    let last = fields.last.read(tuple, &mut buffer);
    let Some(name) = keys::last_name(last) else {
        return Err(Error::internal(format!("no last name of TPC-C is \"{last}\"")));
    };
    let by_name = keys::customer_by_name(keys::district(warehouse, district), name, number);
    Ok(vec![keys::in_district(warehouse, district, number), by_name])
});

relation! {
    /// HISTORY
    HistoryRelation history {
        customer: Small = H_C_ID;
        customer_district: Small = H_C_D_ID;
        customer_warehouse: Small = H_C_W_ID;
        district: Small = H_D_ID;
        warehouse: Small = H_W_ID;
        date: Long = H_DATE;
        amount: Long = H_AMOUNT;
        data: Text = H_DATA;
    }
}
handle!(HistoryRelation, history, 0, |_, _| Ok(Vec::new()));

relation! {
    /// NEW-ORDER
    NewOrderRelation new_order {
        order: Small = NO_O_ID;
        district: Small = NO_D_ID;
        warehouse: Small = NO_W_ID;
    }
}
handle!(NewOrderRelation, new_order, 1, |fields, tuple| {
    let (warehouse, district) = (fields.warehouse.get(tuple), fields.district.get(tuple));
    Ok(vec![keys::in_district(warehouse, district, fields.order.get(tuple))])
});

relation! {
    /// ORDER
    OrdersRelation orders {
        number: Small = O_ID;
        district: Small = O_D_ID;
        warehouse: Small = O_W_ID;
        customer: Small = O_C_ID;
        entered: Long = O_ENTRY_D;
        carrier: Small = O_CARRIER_ID;
        lines: Small = O_OL_CNT;
        all_local: Small = O_ALL_LOCAL;
    }
}
handle!(OrdersRelation, orders, 2, |fields, tuple| {
    let (warehouse, district) = (fields.warehouse.get(tuple), fields.district.get(tuple));
    let (number, customer) = (fields.number.get(tuple), fields.customer.get(tuple));
    let by_customer = keys::order_by_customer(keys::district(warehouse, district), customer, number);
    Ok(vec![keys::in_district(warehouse, district, number), by_customer])
});

relation! {
    /// ORDER-LINE
    OrderLineRelation order_line {
        order: Small = OL_O_ID;
        district: Small = OL_D_ID;
        warehouse: Small = OL_W_ID;
        number: Small = OL_NUMBER;
        item: Small = OL_I_ID;
        supply_warehouse: Small = OL_SUPPLY_W_ID;
        delivered: Long = OL_DELIVERY_D;
        quantity: Small = OL_QUANTITY;
        amount: Long = OL_AMOUNT;
        dist_info: Text = OL_DIST_INFO;
    }
}
handle!(OrderLineRelation, order_line, 1, |fields, tuple| {
    Ok(vec![keys::order_line(fields.order_key(tuple), fields.number.get(tuple))])
});

impl OrderLineRelation {
    /// The key of a line's order.
    #[inline]
    pub fn order_key<W: Words + ?Sized>(&self, line: &W) -> u64 {
        keys::in_district(self.warehouse.get(line), self.district.get(line), self.order.get(line))
    }
}

impl OrdersRelation {
    /// The key of an order.
    #[inline]
    pub fn key<W: Words + ?Sized>(&self, order: &W) -> u64 {
        keys::in_district(self.warehouse.get(order), self.district.get(order), self.number.get(order))
    }

    /// The key of an order's customer.
    #[inline]
    pub fn customer_key<W: Words + ?Sized>(&self, order: &W) -> u64 {
        keys::in_district(self.warehouse.get(order), self.district.get(order), self.customer.get(order))
    }
}

relation! {
    /// ITEM
    ItemRelation item {
        number: Small = I_ID;
        name: Text = I_NAME;
        price: Long = I_PRICE;
        data: Text = I_DATA;
    }
}
handle!(ItemRelation, item, 1, |fields, tuple| Ok(vec![keys::number(fields.number.get(tuple))]));

relation! {
    /// STOCK
    StockRelation stock {
        item: Small = S_I_ID;
        warehouse: Small = S_W_ID;
        quantity: Small = S_QUANTITY;
        dist: [Text; 10] = S_DIST_01;
        ytd: Small = S_YTD;
        orders: Small = S_ORDER_CNT;
        remote: Small = S_REMOTE_CNT;
        data: Text = S_DATA;
    }
}
handle!(StockRelation, stock, 1, |fields, tuple| {
    Ok(vec![keys::stock(fields.warehouse.get(tuple), fields.item.get(tuple))])
});

relation! {
    /// SUPPLIER
    SupplierRelation supplier {
        number: Small = SU_SUPPKEY;
        nation: Small = SU_NATIONKEY;
    }
}
handle!(SupplierRelation, supplier, 1, |fields, tuple| Ok(vec![keys::number(fields.number.get(tuple))]));

relation! {
    /// NATION
    NationRelation nation {
        number: Small = N_NATIONKEY;
        name: Text = N_NAME;
        region: Small = N_REGIONKEY;
    }
}
handle!(NationRelation, nation, 1, |fields, tuple| Ok(vec![keys::number(fields.number.get(tuple))]));

relation! {
    /// REGION
    RegionRelation region {
        number: Small = R_REGIONKEY;
        name: Text = R_NAME;
    }
}
handle!(RegionRelation, region, 1, |fields, tuple| Ok(vec![keys::number(fields.number.get(tuple))]));

/// All relations of a database.
#[derive(Clone, Copy, Debug)]
pub struct SerialTables {
    /// WAREHOUSE
    pub warehouse: WarehouseRelation,
    /// DISTRICT
    pub district: DistrictRelation,
    /// CUSTOMER
    pub customer: CustomerRelation,
    /// HISTORY
    pub history: HistoryRelation,
    /// NEW-ORDER
    pub new_order: NewOrderRelation,
    /// ORDER
    pub orders: OrdersRelation,
    /// ORDER-LINE
    pub order_line: OrderLineRelation,
    /// ITEM
    pub item: ItemRelation,
    /// STOCK
    pub stock: StockRelation,
    /// SUPPLIER
    pub supplier: SupplierRelation,
    /// NATION
    pub nation: NationRelation,
    /// REGION
    pub region: RegionRelation,
}
