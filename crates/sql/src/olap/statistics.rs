//! Variances, deviations, correlations and linear regression, with PostgreSQL's types and its way to compute them.
//!
//! Of doubles they follow Youngs and Cramer: sums of squared distances are kept up to date value by value, and PostgreSQL does it
//! in the same order of operations, so that usual results have the same last digit. Variances and deviations of integers and
//! numerics are exact sums, and the result is a numeric (`exact_spread.rs`).

use super::aggregate::out_of_range;
use super::error::external;
use super::exact_spread::{Exact, Spread};
use super::number_aggregate::{self, NUMBER, Told};
use super::value::sql_type;
use ankerdb_engine::{Error, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use std::collections::HashSet;
use std::sync::Arc;

/// What is told of the values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Spread(Spread),
    Count,
    AverageX,
    AverageY,
    SquaresX,
    SquaresY,
    Products,
    CovariancePopulation,
    CovarianceSample,
    Correlation,
    Determination,
    Slope,
    Intercept,
}

const FUNCTIONS: [(&str, Kind); 18] = [
    ("var_pop", Kind::Spread(Spread::VariancePopulation)),
    ("var_samp", Kind::Spread(Spread::VarianceSample)),
    ("variance", Kind::Spread(Spread::VarianceSample)),
    ("stddev_pop", Kind::Spread(Spread::DeviationPopulation)),
    ("stddev_samp", Kind::Spread(Spread::DeviationSample)),
    ("stddev", Kind::Spread(Spread::DeviationSample)),
    ("regr_count", Kind::Count),
    ("regr_avgx", Kind::AverageX),
    ("regr_avgy", Kind::AverageY),
    ("regr_sxx", Kind::SquaresX),
    ("regr_syy", Kind::SquaresY),
    ("regr_sxy", Kind::Products),
    ("covar_pop", Kind::CovariancePopulation),
    ("covar_samp", Kind::CovarianceSample),
    ("corr", Kind::Correlation),
    ("regr_r2", Kind::Determination),
    ("regr_slope", Kind::Slope),
    ("regr_intercept", Kind::Intercept),
];

/// All of them, to be registered over DataFusion's.
pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    let make = |(name, kind)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(Statistic { name, kind, signature }))
    };
    FUNCTIONS.map(make).to_vec()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Statistic {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

/// The integer or numeric that a variance is exact for.
fn is_exact(kind: Kind, argument: &DataType) -> Option<Spread> {
    let Kind::Spread(spread) = kind else { return None };
    let is_exact =
        matches!(argument, DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Decimal128(..));
    is_exact.then_some(spread)
}

impl Statistic {
    fn spread(&self) -> Option<Spread> {
        match self.kind {
            Kind::Spread(spread) => Some(spread),
            _ => None,
        }
    }
}

impl AggregateUDFImpl for Statistic {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let wanted = if matches!(self.kind, Kind::Spread(_)) { 1 } else { 2 };
        match arguments.len() == wanted {
            true => Ok(arguments
                .iter()
                .map(|argument| match argument {
                    exact if is_exact(self.kind, exact).is_some() => exact.clone(),
                    // Others become doubles when types are settled, or are refused then (`typing::taken`).
                    &NUMBER => NUMBER,
                    number if number.is_numeric() || number.is_null() => DataType::Float64,
                    other => other.clone(),
                })
                .collect()),
            false => {
                let types: Vec<String> =
                    arguments.iter().map(|argument| sql_type(argument).to_string()).collect();
                let message = format!("function {}({}) does not exist", self.name, types.join(", "));
                Err(external(Error::new(SqlState::UndefinedFunction, message)))
            }
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match is_exact(self.kind, &arguments[0]) {
            None if arguments[0] == NUMBER && self.spread().is_some() => NUMBER,
            Some(_) => NUMBER,
            None if self.kind == Kind::Count => DataType::Int64,
            None => DataType::Float64,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field =
            |name: &str, data_type| Arc::new(Field::new(format_state_name(args.name, name), data_type, true));
        let is_exact = is_exact(self.kind, args.input_fields[0].data_type()).is_some();
        if *args.input_fields[0].data_type() == NUMBER {
            return Ok(number_aggregate::state_fields(args.name, args.is_distinct));
        }
        if args.is_distinct {
            let item = if is_exact { DataType::Decimal128(38, 0) } else { DataType::Float64 };
            let list = |_| field("distinct", DataType::new_list(item.clone(), true));
            return Ok(args.input_fields.iter().map(list).collect());
        }
        Ok(match is_exact {
            true => Exact::STATE.iter().map(|(name, data_type)| field(name, data_type.clone())).collect(),
            false => STATE.iter().map(|name| field(name, DataType::Float64)).collect(),
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if let Some(spread) = is_exact(self.kind, args.expr_fields[0].data_type()) {
            return Ok(Exact::accumulator(spread, args.expr_fields[0].data_type(), args.is_distinct));
        }
        if let (Some(spread), &NUMBER) = (self.spread(), args.expr_fields[0].data_type()) {
            return Ok(number_aggregate::accumulator(Told::Spread(spread), args.is_distinct));
        }
        let whole = Moments { kind: self.kind, state: State::default() };
        Ok(match args.is_distinct {
            true => Box::new(Different { whole, seen: HashSet::new(), columns: args.expr_fields.len() }),
            false => Box::new(whole),
        })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

const STATE: [&str; 6] = ["count", "x", "xx", "y", "yy", "xy"];

fn overflow() -> DataFusionError {
    out_of_range("value out of range: overflow")
}

/// Of pairs of a dependent `y` and an independent `x`. Of one argument that is `x`.
#[derive(Clone, Copy, Default, Debug)]
struct State {
    count: f64,
    x: f64,
    /// Sum of the squared distances from the average.
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl State {
    /// Whether a square or product is infinite.
    fn is_over(&self) -> bool {
        self.xx.is_infinite() || self.yy.is_infinite() || self.xy.is_infinite()
    }

    /// # Errors
    /// 22003 if that makes a square or product infinite, of numbers that are not.
    fn add(&mut self, y: f64, x: f64) -> Result<()> {
        let before = *self;
        self.count += 1.0;
        self.x += x;
        self.y += y;
        if self.count > 1.0 {
            let (dx, dy) = (x * self.count - self.x, y * self.count - self.y);
            let scale = 1.0 / (self.count * (self.count - 1.0));
            self.xx += dx * dx * scale;
            self.yy += dy * dy * scale;
            self.xy += dx * dy * scale;
        } else {
            // Infinity and NaN leave no finite distance.
            let distance = |value: f64| if value.is_finite() { 0.0 } else { f64::NAN };
            self.xx = distance(x);
            self.yy = distance(y);
            self.xy = distance(x) + distance(y);
        }
        let was_finite = !before.is_over() && before.x.is_finite() && x.is_finite() && y.is_finite();
        if was_finite && self.is_over() { Err(overflow()) } else { Ok(()) }
    }

    /// # Errors
    /// 22003 as of [`add`](Self::add).
    fn merge(&mut self, other: State) -> Result<()> {
        if other.count == 0.0 {
            return Ok(());
        }
        if self.count == 0.0 {
            *self = other;
            return Ok(());
        }
        let was_finite = !self.is_over() && !other.is_over() && self.x.is_finite() && other.x.is_finite();
        let count = self.count + other.count;
        let (dx, dy) =
            (self.x / self.count - other.x / other.count, self.y / self.count - other.y / other.count);
        let weight = self.count * other.count;
        self.xx += other.xx + weight * dx * dx / count;
        self.yy += other.yy + weight * dy * dy / count;
        self.xy += other.xy + weight * dx * dy / count;
        (self.count, self.x, self.y) = (count, self.x + other.x, self.y + other.y);
        if was_finite && self.is_over() { Err(overflow()) } else { Ok(()) }
    }

    /// NULL where the values say nothing.
    fn told(&self, kind: Kind) -> Option<f64> {
        let least = match kind {
            Kind::Spread(Spread::VarianceSample | Spread::DeviationSample) | Kind::CovarianceSample => 2.0,
            _ => 1.0,
        };
        if self.count < least {
            return None;
        }
        Some(match kind {
            Kind::Spread(Spread::VariancePopulation) => self.xx / self.count,
            Kind::Spread(Spread::VarianceSample) => self.xx / (self.count - 1.0),
            Kind::Spread(Spread::DeviationPopulation) => (self.xx / self.count).sqrt(),
            Kind::Spread(Spread::DeviationSample) => (self.xx / (self.count - 1.0)).sqrt(),
            Kind::Count => self.count,
            Kind::AverageX => self.x / self.count,
            Kind::AverageY => self.y / self.count,
            Kind::SquaresX => self.xx,
            Kind::SquaresY => self.yy,
            Kind::Products => self.xy,
            Kind::CovariancePopulation => self.xy / self.count,
            Kind::CovarianceSample => self.xy / (self.count - 1.0),
            Kind::Correlation | Kind::Determination | Kind::Slope | Kind::Intercept if self.xx == 0.0 => {
                return None;
            }
            Kind::Correlation if self.yy == 0.0 => return None,
            Kind::Correlation => self.xy / (self.xx * self.yy).sqrt(),
            Kind::Determination if self.yy == 0.0 => 1.0,
            Kind::Determination => (self.xy * self.xy) / (self.xx * self.yy),
            Kind::Slope => self.xy / self.xx,
            Kind::Intercept => (self.y - self.x * self.xy / self.xx) / self.count,
        })
    }
}

/// Pairs without a NULL. A single column is `x`.
fn pairs(values: &[ArrayRef]) -> impl Iterator<Item = (f64, f64)> {
    let y: Float64Array = values[0].as_primitive::<Float64Type>().clone();
    let x: Float64Array = values.last().unwrap_or(&values[0]).as_primitive::<Float64Type>().clone();
    let is_single = values.len() == 1;
    (0..y.len()).filter_map(move |row| {
        let is_pair = y.is_valid(row) && x.is_valid(row);
        is_pair.then(|| (if is_single { 0.0 } else { y.value(row) }, x.value(row)))
    })
}

#[derive(Debug)]
struct Moments {
    kind: Kind,
    state: State,
}

impl Accumulator for Moments {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for (y, x) in pairs(values) {
            self.state.add(y, x)?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(match self.kind {
            Kind::Count => ScalarValue::Int64(Some(self.state.count as i64)),
            kind => ScalarValue::Float64(self.state.told(kind)),
        })
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let State { count, x, xx, y, yy, xy } = self.state;
        Ok([count, x, xx, y, yy, xy].map(ScalarValue::from).to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let column = |position: usize| states[position].as_primitive::<Float64Type>();
        for row in 0..states[0].len() {
            let [count, x, xx, y, yy, xy] = [0, 1, 2, 3, 4, 5].map(|position| column(position).value(row));
            self.state.merge(State { count, x, xx, y, yy, xy })?;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The different values or pairs of one group, by their bits.
#[derive(Debug)]
struct Different {
    /// What computes the result of them.
    whole: Moments,
    seen: HashSet<(u64, u64)>,
    columns: usize,
}

/// Zeros of both signs are equal, and so are all that are not a number.
fn bits(value: f64) -> u64 {
    match value {
        0.0 => 0,
        number if number.is_nan() => f64::NAN.to_bits(),
        other => other.to_bits(),
    }
}

impl Different {
    /// In order, so that the result does not depend on how they came.
    fn values(&self) -> Vec<(f64, f64)> {
        let mut values: Vec<(f64, f64)> =
            self.seen.iter().map(|&(y, x)| (f64::from_bits(y), f64::from_bits(x))).collect();
        values.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.total_cmp(&right.1)));
        values
    }
}

impl Accumulator for Different {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.seen.extend(pairs(values).map(|(y, x)| (bits(y), bits(x))));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.whole.state = State::default();
        for (y, x) in self.values() {
            self.whole.state.add(y, x)?;
        }
        self.whole.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.values();
        let list = |column: Vec<f64>| {
            let column: Vec<ScalarValue> = column.into_iter().map(ScalarValue::from).collect();
            ScalarValue::List(ScalarValue::new_list_nullable(&column, &DataType::Float64))
        };
        let x = list(values.iter().map(|pair| pair.1).collect());
        Ok(match self.columns {
            1 => vec![x],
            _ => vec![list(values.iter().map(|pair| pair.0).collect()), x],
        })
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for row in 0..states[0].len() {
            let lists: Vec<ArrayRef> = states.iter().map(|state| state.as_list::<i32>().value(row)).collect();
            self.update_batch(&lists)?;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.seen.capacity() * size_of::<(u64, u64)>() * 2
    }
}
