-- The latest state per customer. A materialized view is computed anew by each update.
CREATE MATERIALIZED VIEW customers
COMMENT 'What each customer has ordered so far, and last'
AS SELECT
  customer,
  count(*) AS orders,
  round(sum(amount), 2) AS spent,
  max(placed_at) AS last_placed_at,
  max_by(order_id, placed_at) AS last_order_id
FROM orders
GROUP BY customer
