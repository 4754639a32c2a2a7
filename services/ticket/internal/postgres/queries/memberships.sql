-- name: InsertPlan :exec
INSERT INTO membership_plans (plan_id, name, price, currency, months, created_at)
VALUES (@plan_id, @name, @price, @currency, @months, coalesce(sqlc.narg('now')::timestamptz, now()));

-- name: FindPlan :one
SELECT * FROM membership_plans WHERE plan_id = @plan_id;

-- name: ListPlansOnSale :many
SELECT * FROM membership_plans WHERE on_sale AND plan_id > '' ORDER BY plan_id LIMIT @max::int;

-- Newest first; their ids grow.
-- name: ListPlans :many
SELECT * FROM membership_plans WHERE plan_id < @before::text ORDER BY plan_id DESC LIMIT @max::int;

-- name: SetPlanOnSale :execrows
UPDATE membership_plans SET on_sale = @on_sale WHERE plan_id = @plan_id;

-- The member is locked, and has no purchase of the plan that is under way.
-- name: InsertMembership :exec
INSERT INTO memberships (membership_id, user_id, plan_id, email, language, price, currency, months, status, pay_until, pay_ends_at, created_at)
VALUES (@membership_id, @user_id, @plan_id, @email, @language, @price, @currency, @months, 'PENDING', @pay_until, @pay_until, @created_at);

-- name: LockPendingMembership :many
SELECT m.* FROM memberships m WHERE m.user_id = @user_id AND m.plan_id = @plan_id AND m.status = 'PENDING' FOR UPDATE;

-- Under the member's lock: what was bought of the plan, whatever has become of it.
-- name: PaidMemberships :many
SELECT m.* FROM memberships m WHERE m.user_id = @user_id AND m.plan_id = @plan_id AND m.status IN ('ACTIVE', 'REFUNDING', 'ENDED');

-- Memberships are locked after transfers.
-- name: LockMemberships :many
SELECT m.* FROM memberships m WHERE m.membership_id = ANY (@membership_ids::uuid[]) ORDER BY m.membership_id FOR UPDATE;

-- What a payment has paid for.
-- name: LockMembershipsOfPayment :many
SELECT m.* FROM memberships m WHERE m.payment_id = @payment_id::uuid AND m.status IN ('ACTIVE', 'REFUNDING', 'ENDED') FOR UPDATE;

-- Whose memberships they are, which never changes.
-- name: MembershipKeys :many
SELECT membership_id, user_id, plan_id FROM memberships WHERE membership_id = ANY (@membership_ids::uuid[]);

-- Memberships, and the paid ones of the same users and plans.
-- name: LockMembershipsWithOthers :many
SELECT m.* FROM memberships m
WHERE m.membership_id = ANY (@membership_ids::uuid[] || ARRAY(
    SELECT o.membership_id
    FROM (SELECT unnest(@user_ids::text[]) AS user_id, unnest(@plan_ids::text[]) AS plan_id) k
    CROSS JOIN LATERAL (SELECT p.membership_id FROM memberships p
                        WHERE p.plan_id = k.plan_id AND p.user_id = k.user_id AND p.status IN ('ACTIVE', 'REFUNDING', 'ENDED') OFFSET 0) o))
ORDER BY m.membership_id FOR UPDATE;

-- name: UpdateMemberships :execrows
UPDATE memberships m
SET status = c.status, pay_until = c.pay_until, payment_id = nullif(c.payment_id, '00000000-0000-0000-0000-000000000000'), begun = c.begun::uuid[], opens = c.opens,
    activated_at = nullif(c.activated_at, 'epoch'), starts_at = nullif(c.starts_at, 'epoch'), ends_at = nullif(c.ends_at, 'epoch'), given = c.given,
    refund_id = nullif(c.refund_id, '00000000-0000-0000-0000-000000000000'), version = c.version
FROM (SELECT unnest(@membership_ids::uuid[]) AS id, unnest(@was::bigint[]) AS was, unnest(@statuses::text[]) AS status,
             unnest(@pay_untils::timestamptz[]) AS pay_until, unnest(@payment_ids::uuid[]) AS payment_id, unnest(@begun::text[]) AS begun, unnest(@opens::int[]) AS opens,
             unnest(@activated::timestamptz[]) AS activated_at, unnest(@starts::timestamptz[]) AS starts_at, unnest(@ends::timestamptz[]) AS ends_at,
             unnest(@given::bigint[]) AS given, unnest(@refund_ids::uuid[]) AS refund_id, unnest(@versions::bigint[]) AS version) c
WHERE m.membership_id = c.id AND m.version = c.was;

-- name: FindMembership :one
SELECT sqlc.embed(m), p.name, coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now
FROM memberships m CROSS JOIN LATERAL (SELECT * FROM membership_plans WHERE membership_plans.plan_id = m.plan_id OFFSET 0) p
WHERE m.membership_id = @membership_id;

-- name: ListMemberships :many
SELECT sqlc.embed(m), p.name, coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now
FROM memberships m CROSS JOIN LATERAL (SELECT * FROM membership_plans WHERE membership_plans.plan_id = m.plan_id OFFSET 0) p
WHERE m.user_id = @user_id AND m.membership_id < @before::uuid
ORDER BY m.membership_id DESC
LIMIT @max::int;

-- name: DueMemberships :many
SELECT membership_id FROM memberships
WHERE status = 'PENDING' AND pay_until <= coalesce(sqlc.narg('now')::timestamptz, now())
ORDER BY pay_until
LIMIT @max::int;

-- Payments that are under way for memberships, and whether their time to pay is short.
-- name: PayingMemberships :many
SELECT m.membership_id AS reference_id, p.payment_id::uuid AS payment_id, (m.pay_until < coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @short_seconds::int))::boolean AS short
FROM (SELECT unnest(@reference_ids::uuid[]) AS membership_id, unnest(@payment_ids::uuid[]) AS payment_id) p
CROSS JOIN LATERAL (SELECT * FROM memberships WHERE memberships.membership_id = p.membership_id OFFSET 0) m
WHERE m.status = 'PENDING' AND m.payment_id = p.payment_id AND m.pay_until > coalesce(sqlc.narg('now')::timestamptz, now());

-- Purchases that are not paid yet, and those of them whose time has been over for a minute.
-- name: CountPurchases :one
SELECT count(*) AS pending, count(*) FILTER (WHERE pay_until < coalesce(sqlc.narg('now')::timestamptz, now()) - interval '1 minute') AS overdue
FROM memberships
WHERE status = 'PENDING' AND pay_until < 'infinity';

-- Those of the users who hold a membership of the plan now. With a time they must have held one then, or have bought one before it: else
-- whoever buys for one presale would count as a member of old. What is given back counts for nobody.
-- name: MembershipHolders :many
SELECT u.user_id::text AS user_id
FROM (SELECT unnest(@user_ids::text[]) AS user_id) u
CROSS JOIN LATERAL (SELECT coalesce(sqlc.narg('now')::timestamptz, now()) AS now) t
WHERE EXISTS (SELECT 1 FROM memberships m
              WHERE m.plan_id = @plan_id AND m.user_id = u.user_id AND m.status = 'ACTIVE' AND m.ends_at > t.now AND m.starts_at <= t.now OFFSET 0)
  AND (sqlc.narg('before')::timestamptz IS NULL
       OR EXISTS (SELECT 1 FROM memberships m
                  WHERE m.plan_id = @plan_id AND m.user_id = u.user_id AND m.status = 'ACTIVE'
                    AND m.ends_at > least(sqlc.narg('before')::timestamptz, t.now) AND m.activated_at < sqlc.narg('before')::timestamptz
                  OFFSET 0));
