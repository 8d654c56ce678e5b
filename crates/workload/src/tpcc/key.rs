//! Encoded index keys, written into a buffer that the caller keeps: no allocation per lookup.

use ankerdb_value::{push_bigint, push_integer, push_smallint, push_text};

/// A reusable key buffer. Each method clears it and returns the encoded key.
#[derive(Default)]
pub struct KeyBuffer(Vec<u8>);

impl KeyBuffer {
    fn begin(&mut self) -> &mut Vec<u8> {
        self.0.clear();
        &mut self.0
    }

    /// Primary key of WAREHOUSE or ITEM.
    pub fn id(&mut self, id: i32) -> &[u8] {
        push_integer(self.begin(), id);
        &self.0
    }

    /// A key of one bigint, in workloads besides TPC-C.
    pub fn bigint(&mut self, number: i64) -> &[u8] {
        push_bigint(self.begin(), number);
        &self.0
    }

    /// A key of one text, in workloads besides TPC-C.
    pub fn text(&mut self, text: &str) -> &[u8] {
        push_text(self.begin(), text);
        &self.0
    }

    /// Primary key of DISTRICT; also the prefix of everything in one district.
    pub fn district(&mut self, warehouse: i32, district: i16) -> &[u8] {
        let key = self.begin();
        push_integer(key, warehouse);
        push_smallint(key, district);
        &self.0
    }

    /// Primary key of CUSTOMER (number = C_ID), ORDER or NEW-ORDER (number = O_ID); the prefix of one order's
    /// lines, or of one customer's orders.
    pub fn in_district(&mut self, warehouse: i32, district: i16, number: i32) -> &[u8] {
        self.district(warehouse, district);
        push_integer(&mut self.0, number);
        &self.0
    }

    /// Primary key of ORDER-LINE.
    pub fn order_line(&mut self, warehouse: i32, district: i16, order: i32, number: i16) -> &[u8] {
        self.in_district(warehouse, district, order);
        push_smallint(&mut self.0, number);
        &self.0
    }

    /// Prefix of the customers of one last name.
    pub fn customer_name(&mut self, warehouse: i32, district: i16, last: &str) -> &[u8] {
        self.district(warehouse, district);
        push_text(&mut self.0, last);
        &self.0
    }

    /// Primary key of STOCK.
    pub fn stock(&mut self, warehouse: i32, item: i32) -> &[u8] {
        let key = self.begin();
        push_integer(key, warehouse);
        push_integer(key, item);
        &self.0
    }
}
