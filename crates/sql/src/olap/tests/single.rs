//! The aggregate behind subqueries that stand for a value.

use super::super::single::Groups;
use super::*;
use datafusion::arrow::array::{ArrayRef, AsArray, Int32Array, StringViewArray};
use datafusion::arrow::datatypes::{DataType as ArrowType, Int32Type};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

/// A pair for each group: its value, and whether it has more.
fn pairs(groups: &mut Groups, emit_to: EmitTo) -> Vec<(Option<i32>, bool)> {
    let pairs = groups.evaluate(emit_to).unwrap();
    let pairs = pairs.as_struct();
    let (values, several) = (pairs.column(0).as_primitive::<Int32Type>(), pairs.column(1).as_boolean());
    values.iter().zip(several.values().iter()).collect()
}

fn integers(values: &[Option<i32>]) -> Vec<ArrayRef> {
    vec![Arc::new(Int32Array::from(values.to_vec()))]
}

#[test]
fn a_group_has_its_first_row_and_knows_of_more() {
    let mut groups = Groups::new(&ArrowType::Int32);
    groups.update_batch(&integers(&[Some(7), None, Some(8)]), &[2, 0, 2], None, 3).unwrap();
    groups.update_batch(&integers(&[Some(9), Some(10)]), &[0, 4], None, 6).unwrap();
    let all = pairs(&mut groups, EmitTo::All);
    // The first row of group 0 is NULL, and still a row; groups 1, 3 and 5 have none.
    let expected =
        [(None, true), (None, false), (Some(7), true), (None, false), (Some(10), false), (None, false)];
    assert_eq!(all, expected);
    assert!(pairs(&mut groups, EmitTo::All).is_empty());
}

#[test]
fn groups_that_are_given_let_go_of_their_rows() {
    let mut groups = Groups::new(&ArrowType::Int32);
    let empty = groups.size();
    for batch in 0..100 {
        // Two groups of each batch are given before the next one comes, the third stays.
        let values = integers(&[Some(batch), Some(batch + 1), Some(batch + 2)]);
        let first = usize::from(batch > 0);
        groups.update_batch(&values, &[first, first + 1, first + 2], None, first + 3).unwrap();
        let given = pairs(&mut groups, EmitTo::First(first + 2));
        assert_eq!(given.last(), Some(&(Some(batch + 1), false)));
        if first == 1 {
            assert_eq!(given[0], (Some(batch + 1), false));
        }
    }
    assert!(groups.size() < empty + 10_000, "{}", groups.size());
    assert_eq!(pairs(&mut groups, EmitTo::All), [(Some(101), false)]);
}

#[test]
fn parts_of_groups_come_together() {
    let mut parts = Groups::new(&ArrowType::Int32);
    parts.update_batch(&integers(&[Some(1), Some(2), Some(3)]), &[0, 1, 1], None, 3).unwrap();
    let state = parts.state(EmitTo::All).unwrap();
    let mut whole = Groups::new(&ArrowType::Int32);
    whole.merge_batch(&state, &[0, 1, 2], 3).unwrap();
    let rows = whole.convert_to_state(&integers(&[Some(4), Some(5)]), None).unwrap();
    whole.merge_batch(&rows, &[0, 2], 3).unwrap();
    assert_eq!(pairs(&mut whole, EmitTo::All), [(Some(1), true), (Some(2), true), (Some(5), false)]);
}

#[test]
fn kept_texts_do_not_keep_the_rest_of_their_batch() {
    let long = "a text that does not fit beside its length".repeat(100);
    let texts: StringViewArray = (0..1000).map(|_| Some(long.as_str())).collect();
    let mut groups = Groups::new(&ArrowType::Utf8View);
    groups.update_batch(&[Arc::new(texts.slice(500, 1))], &[0], None, 1).unwrap();
    assert!(groups.size() < 20 * long.len(), "{}", groups.size());
}

#[test]
fn each_of_many_rows_has_its_subquerys_value() {
    let fixture = Fixture::with_lines(30_000);
    let joined = "select count(*) from line a join line b on b.id = a.id * 2 where a.amount is not null";
    let found = fixture.value(joined);
    for column in ["info", "amount", "district"] {
        let subquery = format!("(select b.{column} from line b where b.id = a.id * 2)");
        assert_eq!(fixture.value(&format!("select count({subquery}) from line a")), found);
        let wrong = format!(
            "select count(*) from line a join line b on b.id = a.id * 2 where b.{column} <> {subquery}"
        );
        assert_eq!(fixture.value(&wrong), Value::BigInt(0), "{column}");
    }
}
