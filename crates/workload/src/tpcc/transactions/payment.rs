//! Payment (clause 2.5): a customer pays; warehouse, district and customer add it up.

use super::Procedure;
use crate::tpcc::input::PaymentInput;
use crate::tpcc::label::Label;
use crate::tpcc::load::money_cell;
use crate::tpcc::schema::{customer, district, warehouse};
use ankerdb_engine::{Cell, ColumnSet, Result, RowId, RowReader};

/// The most characters of C_DATA.
const DATA_LENGTH: usize = 500;

/// What the terminal shows (clause 2.5.3).
#[derive(Debug)]
pub struct PaymentOutput {
    /// The warehouse.
    pub warehouse: NameAndAddress,
    /// The district.
    pub district: NameAndAddress,
    /// C_ID
    pub customer: i32,
    /// First, middle and last name, address, phone and credit.
    pub customer_texts: [Label; 10],
    /// C_BALANCE after the payment, in cents.
    pub balance_cents: i128,
    /// C_CREDIT_LIM in cents.
    pub credit_limit_cents: i128,
    /// C_DISCOUNT in ten-thousandths.
    pub discount: i128,
    /// The first 200 characters of C_DATA, if the customer has bad credit.
    pub data: Option<Box<str>>,
}

/// Name and address of a warehouse or district.
#[derive(Debug)]
pub struct NameAndAddress {
    /// The name.
    pub name: Label,
    /// Streets, city, state, zip.
    pub address: [Label; 5],
}

const WAREHOUSE_COLUMNS: ColumnSet = ColumnSet::of(&[
    warehouse::W_NAME,
    warehouse::W_STREET_1,
    warehouse::W_STREET_2,
    warehouse::W_CITY,
    warehouse::W_STATE,
    warehouse::W_ZIP,
    warehouse::W_YTD,
]);
const DISTRICT_COLUMNS: ColumnSet = ColumnSet::of(&[
    district::D_NAME,
    district::D_STREET_1,
    district::D_STREET_2,
    district::D_CITY,
    district::D_STATE,
    district::D_ZIP,
    district::D_YTD,
]);
/// Texts of the customer that are shown.
const CUSTOMER_TEXTS: [usize; 10] = [
    customer::C_FIRST,
    customer::C_MIDDLE,
    customer::C_LAST,
    customer::C_STREET_1,
    customer::C_STREET_2,
    customer::C_CITY,
    customer::C_STATE,
    customer::C_ZIP,
    customer::C_PHONE,
    customer::C_CREDIT,
];
const CUSTOMER_COLUMNS: ColumnSet = ColumnSet::of(&[
    customer::C_FIRST,
    customer::C_MIDDLE,
    customer::C_LAST,
    customer::C_STREET_1,
    customer::C_STREET_2,
    customer::C_CITY,
    customer::C_STATE,
    customer::C_ZIP,
    customer::C_PHONE,
    customer::C_CREDIT,
    customer::C_CREDIT_LIM,
    customer::C_DISCOUNT,
    customer::C_BALANCE,
    customer::C_YTD_PAYMENT,
    customer::C_PAYMENT_CNT,
    customer::C_DATA,
]);

impl Procedure<'_> {
    pub(super) fn payment(&mut self, input: &PaymentInput) -> Result<PaymentOutput> {
        let warehouse = self.pay_warehouse(input)?;
        let district = self.pay_district(input)?;
        let (place_warehouse, place_district) = (input.customer_warehouse, input.customer_district);
        let row = self.find_customer(place_warehouse, place_district, &input.customer, CUSTOMER_COLUMNS)?;
        let output = self.pay_customer(row, input, warehouse, district)?;
        self.insert_history(&output, input)?;
        Ok(output)
    }

    fn pay_warehouse(&mut self, input: &PaymentInput) -> Result<NameAndAddress> {
        let table = &self.tables.warehouse;
        let row = Self::require(self.transaction, table, self.key.id(input.warehouse), WAREHOUSE_COLUMNS)?;
        let reader = self.transaction.row(table, row);
        let sum = money_cell(reader.decimal(warehouse::W_YTD) + input.amount);
        let place = place(&reader, warehouse::W_NAME);
        drop(reader);
        self.transaction.update_cells(table, row, &[(warehouse::W_YTD, sum)])?;
        Ok(place)
    }

    fn pay_district(&mut self, input: &PaymentInput) -> Result<NameAndAddress> {
        let table = &self.tables.district;
        let key = self.key.district(input.warehouse, input.district);
        let row = Self::require(self.transaction, table, key, DISTRICT_COLUMNS)?;
        let reader = self.transaction.row(table, row);
        let sum = money_cell(reader.decimal(district::D_YTD) + input.amount);
        let place = place(&reader, district::D_NAME);
        drop(reader);
        self.transaction.update_cells(table, row, &[(district::D_YTD, sum)])?;
        Ok(place)
    }

    fn pay_customer(
        &mut self,
        row: RowId,
        input: &PaymentInput,
        warehouse: NameAndAddress,
        district: NameAndAddress,
    ) -> Result<PaymentOutput> {
        let table = &self.tables.customer;
        let reader = self.transaction.row(table, row);
        let id = reader.integer(customer::C_ID);
        let balance_cents = reader.decimal(customer::C_BALANCE) - input.amount;
        let paid = reader.decimal(customer::C_YTD_PAYMENT) + input.amount;
        let payments = reader.integer(customer::C_PAYMENT_CNT) + 1;
        let customer_texts = CUSTOMER_TEXTS.map(|column| reader.text(column, Label::of));
        let has_bad_credit = &*customer_texts[9] == "BC";
        let data =
            has_bad_credit.then(|| reader.text(customer::C_DATA, |data| bad_credit_data(id, input, data)));
        let credit_limit_cents = reader.decimal(customer::C_CREDIT_LIM);
        let discount = reader.decimal(customer::C_DISCOUNT);
        drop(reader);
        let new_data = data.as_deref().unwrap_or_default();
        let changes = [
            (customer::C_BALANCE, money_cell(balance_cents)),
            (customer::C_YTD_PAYMENT, money_cell(paid)),
            (customer::C_PAYMENT_CNT, Cell::integer(payments)),
            (customer::C_DATA, Cell::Bytes(new_data.as_bytes())),
        ];
        let changes = if has_bad_credit { &changes[..] } else { &changes[..3] };
        self.transaction.update_cells(table, row, changes)?;
        Ok(PaymentOutput {
            warehouse,
            district,
            customer: id,
            customer_texts,
            balance_cents,
            credit_limit_cents,
            discount,
            data: data.map(|data| data[..data.len().min(200)].into()),
        })
    }

    fn insert_history(&mut self, output: &PaymentOutput, input: &PaymentInput) -> Result<()> {
        let data = &mut *self.text;
        data.clear();
        data.push_str(&output.warehouse.name);
        data.push_str("    ");
        data.push_str(&output.district.name);
        self.transaction.insert_cells(
            &self.tables.history,
            &[
                Cell::integer(output.customer),
                Cell::smallint(input.customer_district),
                Cell::integer(input.customer_warehouse),
                Cell::smallint(input.district),
                Cell::integer(input.warehouse),
                Cell::bigint(self.now),
                money_cell(input.amount),
                Cell::Bytes(data.as_bytes()),
            ],
        )?;
        Ok(())
    }
}

/// Reads the name and the five columns after it.
fn place(row: &RowReader<'_>, name: usize) -> NameAndAddress {
    let label = |column| row.text(column, Label::of);
    NameAndAddress { name: label(name), address: std::array::from_fn(|offset| label(name + 1 + offset)) }
}

/// Puts the payment before a bad payer's data, cut to 500 characters (clause 2.5.2.2). All of it is ASCII.
pub(crate) fn bad_credit_data(customer: i32, input: &PaymentInput, old: &str) -> String {
    let mut data = format!(
        "{customer} {} {} {} {} {}.{:02} ",
        input.customer_district,
        input.customer_warehouse,
        input.district,
        input.warehouse,
        input.amount / 100,
        input.amount % 100
    );
    data.push_str(old);
    data.truncate(DATA_LENGTH);
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::input::CustomerInput;

    #[test]
    fn bad_credit_data_is_prepended_and_cut() {
        let input = PaymentInput {
            warehouse: 1,
            district: 2,
            customer_warehouse: 3,
            customer_district: 4,
            customer: CustomerInput::Id(5),
            amount: 12_305,
        };
        assert_eq!(bad_credit_data(5, &input, "old"), "5 4 3 2 1 123.05 old");
        assert_eq!(bad_credit_data(5, &input, &"x".repeat(500)).len(), 500);
    }
}
