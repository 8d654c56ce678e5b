//! Payment (clause 2.5): a customer pays; warehouse, district and customer add it up.

use super::Procedure;
use crate::serial::keys;
use crate::serial::layout::{Text, Words};
use crate::tpcc::input::PaymentInput;
use crate::tpcc::label::Label;
use crate::tpcc::transactions::{NameAndAddress, PaymentOutput, bad_credit_data};
use ankerdb_engine::Result;
use ankerdb_serial::Store;

/// Room for C_DATA.
const DATA_BYTES: usize = 504;
/// Characters of it that are shown.
const DATA_SHOWN: usize = 200;

impl<S: Store> Procedure<'_, '_, S> {
    pub(super) fn payment(&mut self, input: &PaymentInput) -> Result<PaymentOutput> {
        let warehouse = self.pay_warehouse(input)?;
        let district = self.pay_district(input)?;
        let output = self.pay_customer(input, warehouse, district)?;
        self.insert_history(&output, input)?;
        Ok(output)
    }

    fn pay_warehouse(&mut self, input: &PaymentInput) -> Result<NameAndAddress> {
        let table = &self.tables.warehouse;
        let mut change = self.change_by_key(table.relation, keys::number(input.warehouse))?;
        let sum = table.ytd.get(&change) + input.amount as i64;
        table.ytd.set(&mut change, sum);
        Ok(place(&change, table.name, &table.address))
    }

    fn pay_district(&mut self, input: &PaymentInput) -> Result<NameAndAddress> {
        let table = &self.tables.district;
        let key = keys::district(input.warehouse, input.district.into());
        let mut change = self.change_by_key(table.relation, key)?;
        let sum = table.ytd.get(&change) + input.amount as i64;
        table.ytd.set(&mut change, sum);
        Ok(place(&change, table.name, &table.address))
    }

    fn pay_customer(
        &mut self,
        input: &PaymentInput,
        warehouse: NameAndAddress,
        district: NameAndAddress,
    ) -> Result<PaymentOutput> {
        let tuple = self.find_customer(input.customer_warehouse, input.customer_district, &input.customer)?;
        let table = &self.tables.customer;
        let mut customer = self.transaction.change(table.relation, tuple)?;
        let (id, amount) = (table.number.get(&customer), input.amount as i64);
        let balance = table.balance.get(&customer) - amount;
        let paid = table.ytd_payment.get(&customer) + amount;
        let payments = table.payments.get(&customer) + 1;
        table.balance.set(&mut customer, balance);
        table.ytd_payment.set(&mut customer, paid);
        table.payments.set(&mut customer, payments);
        let credit = table.credit.label(&customer);
        let data = (&*credit == "BC").then(|| {
            let mut buffer = [0; DATA_BYTES];
            let data = bad_credit_data(id, input, table.data.read(&customer, &mut buffer));
            table.data.set(&mut customer, &data);
            data[..data.len().min(DATA_SHOWN)].into()
        });
        let mut customer_texts = [credit; 10];
        for (text, field) in customer_texts.iter_mut().zip(table.names_to_phone) {
            *text = field.label(&customer);
        }
        Ok(PaymentOutput {
            warehouse,
            district,
            customer: id,
            customer_texts,
            balance_cents: balance.into(),
            credit_limit_cents: table.credit_limit.get(&customer).into(),
            discount: table.discount.get(&customer).into(),
            data,
        })
    }

    fn insert_history(&mut self, output: &PaymentOutput, input: &PaymentInput) -> Result<()> {
        let table = &self.tables.history;
        let mut text = std::mem::take(&mut self.buffers.text);
        text.clear();
        text.push_str(&output.warehouse.name);
        text.push_str("    ");
        text.push_str(&output.district.name);
        let row = self.buffers.new_row(table.words);
        table.customer.put(row, output.customer);
        table.customer_district.put(row, input.customer_district.into());
        table.customer_warehouse.put(row, input.customer_warehouse);
        table.district.put(row, input.district.into());
        table.warehouse.put(row, input.warehouse);
        table.date.put(row, self.now);
        table.amount.put(row, input.amount as i64);
        table.data.put(row, &text);
        self.transaction.insert(table.relation, row, &[])?;
        self.buffers.text = text;
        Ok(())
    }
}

fn place<W: Words + ?Sized>(tuple: &W, name: Text, address: &[Text; 5]) -> NameAndAddress {
    let label = |field: Text| -> Label { field.label(tuple) };
    NameAndAddress { name: label(name), address: address.map(label) }
}
