//! The 22 queries of CH-benCHmark (Cole et al., DBTest 2011): those of TPC-H over TPC-C's tables.
//!
//! Where we differ from the definition: upper bounds of dates are in 2100, since our loader dates its rows with the day of the
//! run, and every such condition is to hold for all rows, as it does there; the one lower bound that is later than 2007 (Q20) is as
//! it was. Q21 compares a line's delivery with the last one of its order, where the definition asks that there is no later one.
//! Conditions that all branches of a disjunction share (Q19) are written once. Each query names all columns of its order that the
//! definition names; rows that are alike in those come in any order.

/// One of the queries.
#[derive(Clone, Copy, Debug)]
pub struct ChQuery {
    /// In results.
    pub name: &'static str,
    /// What it asks, in a few words.
    pub about: &'static str,
    /// The text.
    pub sql: &'static str,
    /// Columns of the answer by which its rows are ordered, most significant first; true: downwards.
    pub order: &'static [(usize, bool)],
}

/// Upwards by a column of the answer.
const fn up(column: usize) -> (usize, bool) {
    (column, false)
}

/// Downwards by a column of the answer.
const fn down(column: usize) -> (usize, bool) {
    (column, true)
}

/// All of them, in the order of their numbers.
pub const CH_QUERIES: [ChQuery; 22] = [
    ChQuery {
        name: "Q1",
        about: "delivered lines, by their number",
        sql: "select ol_number, sum(ol_quantity) as sum_qty, sum(ol_amount) as sum_amount, \
                avg(ol_quantity) as avg_qty, avg(ol_amount) as avg_amount, count(*) as count_order \
              from order_line where ol_delivery_d > timestamp '2007-01-02 00:00:00' \
              group by ol_number order by ol_number",
        order: &[up(0)],
    },
    ChQuery {
        name: "Q2",
        about: "European suppliers that have least of an item",
        sql: "select su_suppkey, su_name, n_name, i_id, i_name, su_address, su_phone, su_comment \
              from item, supplier, stock, nation, region, \
                (select s_i_id as m_i_id, min(s_quantity) as m_s_quantity \
                 from stock, supplier, nation, region \
                 where mod(s_w_id * s_i_id, 10000) = su_suppkey and su_nationkey = n_nationkey \
                   and n_regionkey = r_regionkey and r_name like 'Europ%' \
                 group by s_i_id) m \
              where i_id = s_i_id and mod(s_w_id * s_i_id, 10000) = su_suppkey and su_nationkey = n_nationkey \
                and n_regionkey = r_regionkey and i_data like '%b' and r_name like 'Europ%' \
                and i_id = m_i_id and s_quantity = m_s_quantity \
              order by n_name, su_name, i_id",
        order: &[up(2), up(1), up(3)],
    },
    ChQuery {
        name: "Q3",
        about: "open orders of customers in states with A, by value",
        sql: "select ol_o_id, ol_w_id, ol_d_id, sum(ol_amount) as revenue, o_entry_d \
              from customer, new_order, orders, order_line \
              where c_state like 'A%' and c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id \
                and no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id \
                and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
                and o_entry_d > timestamp '2007-01-02 00:00:00' \
              group by ol_o_id, ol_w_id, ol_d_id, o_entry_d order by revenue desc, o_entry_d",
        order: &[down(3), up(4)],
    },
    ChQuery {
        name: "Q4",
        about: "orders with a line delivered after they were placed, by size",
        sql: "select o_ol_cnt, count(*) as order_count from orders \
              where o_entry_d >= timestamp '2007-01-02 00:00:00' and o_entry_d < timestamp '2100-01-02 00:00:00' \
                and exists (select * from order_line where o_id = ol_o_id and o_w_id = ol_w_id \
                  and o_d_id = ol_d_id and ol_delivery_d >= o_entry_d) \
              group by o_ol_cnt order by o_ol_cnt",
        order: &[up(0)],
    },
    ChQuery {
        name: "Q5",
        about: "revenue where customer and supplier are of one European nation",
        sql: "select n_name, sum(ol_amount) as revenue \
              from customer, orders, order_line, stock, supplier, nation, region \
              where c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id \
                and ol_o_id = o_id and ol_w_id = o_w_id and ol_d_id = o_d_id \
                and ol_w_id = s_w_id and ol_i_id = s_i_id and mod(s_w_id * s_i_id, 10000) = su_suppkey \
                and ascii(substr(c_state, 1, 1)) = su_nationkey and su_nationkey = n_nationkey \
                and n_regionkey = r_regionkey and r_name = 'Europe' \
                and o_entry_d >= timestamp '2007-01-02 00:00:00' \
              group by n_name order by revenue desc",
        order: &[down(1)],
    },
    ChQuery {
        name: "Q6",
        about: "revenue of delivered lines",
        sql: "select sum(ol_amount) as revenue from order_line \
              where ol_delivery_d >= timestamp '1999-01-01 00:00:00' \
                and ol_delivery_d < timestamp '2100-01-01 00:00:00' and ol_quantity between 1 and 100000",
        order: &[],
    },
    ChQuery {
        name: "Q7",
        about: "trade between Germany and Cambodia, by year",
        sql: "select su_nationkey as supp_nation, substr(c_state, 1, 1) as cust_nation, \
                extract(year from o_entry_d) as l_year, sum(ol_amount) as revenue \
              from supplier, stock, order_line, orders, customer, nation n1, nation n2 \
              where ol_supply_w_id = s_w_id and ol_i_id = s_i_id and mod(s_w_id * s_i_id, 10000) = su_suppkey \
                and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
                and c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id \
                and su_nationkey = n1.n_nationkey and ascii(substr(c_state, 1, 1)) = n2.n_nationkey \
                and ((n1.n_name = 'Germany' and n2.n_name = 'Cambodia') \
                  or (n1.n_name = 'Cambodia' and n2.n_name = 'Germany')) \
                and ol_delivery_d between timestamp '2007-01-02 00:00:00' and timestamp '2100-01-02 00:00:00' \
              group by su_nationkey, substr(c_state, 1, 1), extract(year from o_entry_d) \
              order by su_nationkey, cust_nation, l_year",
        order: &[up(0), up(1), up(2)],
    },
    ChQuery {
        name: "Q8",
        about: "Germany's share of what European customers buy of some items, by year",
        sql: "select extract(year from o_entry_d) as l_year, \
                sum(case when n2.n_name = 'Germany' then ol_amount else 0 end) / sum(ol_amount) as mkt_share \
              from item, supplier, stock, order_line, orders, customer, nation n1, nation n2, region \
              where i_id = s_i_id and ol_i_id = s_i_id and ol_supply_w_id = s_w_id \
                and mod(s_w_id * s_i_id, 10000) = su_suppkey \
                and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
                and c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id \
                and n1.n_nationkey = ascii(substr(c_state, 1, 1)) and n1.n_regionkey = r_regionkey \
                and ol_i_id < 1000 and r_name = 'Europe' and su_nationkey = n2.n_nationkey \
                and o_entry_d between timestamp '2007-01-02 00:00:00' and timestamp '2100-01-02 00:00:00' \
                and i_data like '%b' and i_id = ol_i_id \
              group by extract(year from o_entry_d) order by l_year",
        order: &[up(0)],
    },
    ChQuery {
        name: "Q9",
        about: "revenue of some items, by the supplier's nation and year",
        sql: "select n_name, extract(year from o_entry_d) as l_year, sum(ol_amount) as sum_profit \
              from item, stock, supplier, order_line, orders, nation \
              where ol_i_id = s_i_id and ol_supply_w_id = s_w_id and mod(s_w_id * s_i_id, 10000) = su_suppkey \
                and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id and ol_i_id = i_id \
                and su_nationkey = n_nationkey and i_data like '%BB' \
              group by n_name, extract(year from o_entry_d) order by n_name, l_year desc",
        order: &[up(0), down(1)],
    },
    ChQuery {
        name: "Q10",
        about: "customers by what was delivered to them",
        sql: "select c_id, c_last, sum(ol_amount) as revenue, c_city, c_phone, n_name \
              from customer, orders, order_line, nation \
              where c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id \
                and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
                and o_entry_d >= timestamp '2007-01-02 00:00:00' and o_entry_d <= ol_delivery_d \
                and n_nationkey = ascii(substr(c_state, 1, 1)) \
              group by c_id, c_last, c_city, c_phone, n_name order by revenue desc",
        order: &[down(2)],
    },
    ChQuery {
        name: "Q11",
        about: "items of German suppliers that are ordered most",
        sql: "select s_i_id, sum(s_order_cnt) as ordercount from stock, supplier, nation \
              where mod(s_w_id * s_i_id, 10000) = su_suppkey and su_nationkey = n_nationkey and n_name = 'Germany' \
              group by s_i_id \
              having sum(s_order_cnt) > (select sum(s_order_cnt) * .005 from stock, supplier, nation \
                where mod(s_w_id * s_i_id, 10000) = su_suppkey and su_nationkey = n_nationkey \
                  and n_name = 'Germany') \
              order by ordercount desc",
        order: &[down(1)],
    },
    ChQuery {
        name: "Q12",
        about: "delivered lines of two carriers and of others, by size of the order",
        sql: "select o_ol_cnt, \
                sum(case when o_carrier_id = 1 or o_carrier_id = 2 then 1 else 0 end) as high_line_count, \
                sum(case when o_carrier_id <> 1 and o_carrier_id <> 2 then 1 else 0 end) as low_line_count \
              from orders, order_line \
              where ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id and o_entry_d <= ol_delivery_d \
                and ol_delivery_d < timestamp '2100-01-01 00:00:00' \
              group by o_ol_cnt order by o_ol_cnt",
        order: &[up(0)],
    },
    ChQuery {
        name: "Q13",
        about: "how many customers have how many orders of some carriers",
        sql: "select c_count, count(*) as custdist \
              from (select c_id, count(o_id) as c_count from customer left outer join orders \
                  on (c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id and o_carrier_id > 8) \
                group by c_id) as c_orders \
              group by c_count order by custdist desc, c_count desc",
        order: &[down(1), down(0)],
    },
    ChQuery {
        name: "Q14",
        about: "share of promoted items in the revenue",
        sql: "select 100.00 * sum(case when i_data like 'PR%' then ol_amount else 0 end) / (1 + sum(ol_amount)) \
                as promo_revenue \
              from order_line, item \
              where ol_i_id = i_id and ol_delivery_d >= timestamp '2007-01-02 00:00:00' \
                and ol_delivery_d < timestamp '2100-01-02 00:00:00'",
        order: &[],
    },
    ChQuery {
        name: "Q15",
        about: "the supplier with most revenue",
        sql: "with revenue as (select mod(s_w_id * s_i_id, 10000) as supplier_no, sum(ol_amount) as total_revenue \
                from order_line, stock \
                where ol_i_id = s_i_id and ol_supply_w_id = s_w_id \
                  and ol_delivery_d >= timestamp '2007-01-02 00:00:00' \
                group by mod(s_w_id * s_i_id, 10000)) \
              select su_suppkey, su_name, su_address, su_phone, total_revenue from supplier, revenue \
              where su_suppkey = supplier_no and total_revenue = (select max(total_revenue) from revenue) \
              order by su_suppkey",
        order: &[up(0)],
    },
    ChQuery {
        name: "Q16",
        about: "suppliers without complaints, by item",
        sql: "select i_name, substr(i_data, 1, 3) as brand, i_price, \
                count(distinct mod(s_w_id * s_i_id, 10000)) as supplier_cnt \
              from stock, item \
              where i_id = s_i_id and i_data not like 'zz%' \
                and mod(s_w_id * s_i_id, 10000) not in (select su_suppkey from supplier where su_comment like '%bad%') \
              group by i_name, substr(i_data, 1, 3), i_price order by supplier_cnt desc",
        order: &[down(3)],
    },
    ChQuery {
        name: "Q17",
        about: "revenue of small orders of some items",
        sql: "select sum(ol_amount) / 2.0 as avg_yearly \
              from order_line, (select i_id, avg(ol_quantity) as a from item, order_line \
                where i_data like '%b' and ol_i_id = i_id group by i_id) t \
              where ol_i_id = t.i_id and ol_quantity < t.a",
        order: &[],
    },
    ChQuery {
        name: "Q18",
        about: "orders by value, with their customers",
        sql: "select c_last, c_id, o_id, o_entry_d, o_ol_cnt, sum(ol_amount) as value \
              from customer, orders, order_line \
              where c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id \
                and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id \
              group by o_id, o_w_id, o_d_id, c_id, c_last, o_entry_d, o_ol_cnt \
              having sum(ol_amount) > 200 order by value desc, o_entry_d",
        order: &[down(5), up(3)],
    },
    ChQuery {
        name: "Q19",
        about: "revenue of some items in some warehouses",
        sql: "select sum(ol_amount) as revenue from order_line, item \
              where ol_i_id = i_id and ol_quantity >= 1 and ol_quantity <= 10 and i_price between 1 and 400000 \
                and ((i_data like '%a' and ol_w_id in (1, 2, 3)) \
                  or (i_data like '%b' and ol_w_id in (1, 2, 4)) \
                  or (i_data like '%c' and ol_w_id in (1, 5, 3)))",
        order: &[],
    },
    ChQuery {
        name: "Q20",
        about: "German suppliers that have much of some items",
        sql: "select su_name, su_address from supplier, nation \
              where su_suppkey in (select mod(s_i_id * s_w_id, 10000) from stock, order_line \
                  where s_i_id in (select i_id from item where i_data like 'co%') and ol_i_id = s_i_id \
                    and ol_delivery_d > timestamp '2010-05-23 12:00:00' \
                  group by s_i_id, s_w_id, s_quantity having 2 * s_quantity > sum(ol_quantity)) \
                and su_nationkey = n_nationkey and n_name = 'Germany' \
              order by su_name",
        order: &[up(0)],
    },
    ChQuery {
        name: "Q21",
        about: "German suppliers of the lines that an order waited for",
        sql: "select su_name, count(*) as numwait from supplier, order_line l1, orders, stock, nation, \
                (select ol_w_id as m_w_id, ol_d_id as m_d_id, ol_o_id as m_o_id, max(ol_delivery_d) as last_delivery \
                 from order_line group by ol_w_id, ol_d_id, ol_o_id) m \
              where l1.ol_o_id = o_id and l1.ol_w_id = o_w_id and l1.ol_d_id = o_d_id \
                and l1.ol_w_id = s_w_id and l1.ol_i_id = s_i_id and mod(s_w_id * s_i_id, 10000) = su_suppkey \
                and l1.ol_delivery_d > o_entry_d \
                and m_o_id = l1.ol_o_id and m_w_id = l1.ol_w_id and m_d_id = l1.ol_d_id \
                and l1.ol_delivery_d = last_delivery \
                and su_nationkey = n_nationkey and n_name = 'Germany' \
              group by su_name order by numwait desc, su_name",
        order: &[down(1), up(0)],
    },
    ChQuery {
        name: "Q22",
        about: "customers with money and without orders, by the first letter of their state",
        sql: "select substr(c_state, 1, 1) as country, count(*) as numcust, sum(c_balance) as totacctbal \
              from customer \
              where substr(c_phone, 1, 1) in ('1', '2', '3', '4', '5', '6', '7') \
                and c_balance > (select avg(c_balance) from customer where c_balance > 0.00 \
                  and substr(c_phone, 1, 1) in ('1', '2', '3', '4', '5', '6', '7')) \
                and not exists (select * from orders where o_c_id = c_id and o_w_id = c_w_id and o_d_id = c_d_id) \
              group by substr(c_state, 1, 1) order by substr(c_state, 1, 1)",
        order: &[up(0)],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_named_by_their_numbers() {
        for (place, query) in CH_QUERIES.iter().enumerate() {
            assert_eq!(query.name, format!("Q{}", place + 1));
        }
    }
}
