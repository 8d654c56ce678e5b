//! [`uuid::Uuid`] as `uuid`.

use super::wrong_type;
use crate::error::Result;
use crate::{FromValue, ToValue};
use ankerdb_engine::{DataType, ValueRef};
use uuid::Uuid;

impl ToValue for Uuid {
    fn to_value(&self) -> Result<ValueRef<'_>> {
        Ok(ValueRef::Uuid(self.into_bytes()))
    }
}

impl FromValue for Uuid {
    fn from_value(value: ValueRef<'_>) -> Result<Uuid> {
        match value {
            ValueRef::Uuid(bytes) => Ok(Uuid::from_bytes(bytes)),
            other => Err(wrong_type(other, "Uuid")),
        }
    }

    fn reads(data_type: DataType) -> bool {
        data_type == DataType::Uuid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_comes_back_and_is_shown_as_it_was_written() {
        let written = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        let uuid: Uuid = written.parse().unwrap();
        let value = uuid.to_value().unwrap();
        let text = value.to_value();
        assert_eq!(ankerdb_value::parse_text(DataType::Uuid, written).unwrap(), text);
        assert_eq!(Uuid::from_value(value).unwrap(), uuid);
        assert!(Uuid::from_value(ValueRef::Integer(1)).is_err());
    }
}
