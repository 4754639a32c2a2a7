package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"urr.guru/services/reward/sandbox"
)

// RewardsDamages names what Damage can do.
func RewardsDamages() []string { return []string{damagePaidTwice, damageOverdrawn, damageUnpaid} }

const (
	damagePaidTwice = "paid_twice"
	damageOverdrawn = "overdrawn"
	damageUnpaid    = "unpaid"
)

// Damage changes the ledger or the tables, bypassing the services, to show that Judge detects it.
func (r *RewardsRun) Damage(ctx context.Context, what string) error {
	switch what {
	case damagePaidTwice:
		return r.payAgain(ctx)
	case damageOverdrawn: // one more member has a prize
		return r.damage(ctx, `
			UPDATE event_entry SET prize_id = (SELECT id FROM prizes WHERE event_id = $1 AND initial IS NOT NULL ORDER BY id LIMIT 1)
			WHERE id = (SELECT e.id FROM event_entry AS e LEFT JOIN prizes AS p ON p.id = e.prize_id
			            WHERE e.event_id = $1 AND p.initial IS NULL ORDER BY e.id LIMIT 1)`, r.Random)
	case damageUnpaid: // the ledger does not know the key of a reward
		return r.damage(ctx, `
			UPDATE event_reward_allocation SET idempotency_key = idempotency_key || '-damaged'
			WHERE id = (SELECT id FROM event_reward_allocation WHERE event_id = $1 AND reward_status = 'SUCCESS' ORDER BY id LIMIT 1)`, r.Attendance)
	default:
		return fmt.Errorf("there is no damage %q", what)
	}
}

func (r *RewardsRun) damage(ctx context.Context, sql, event string) error {
	tag, err := r.DB.Exec(ctx, sql, event)
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("there is nothing to damage")
	}
	return err
}

// payAgain pays a reward once more after the provider has forgotten its key.
func (r *RewardsRun) payAgain(ctx context.Context) (err error) {
	var o sandbox.Order
	err = r.DB.QueryRow(ctx, `
		SELECT idempotency_key, member_id, reward_kind, reward_value FROM event_reward_allocation
		WHERE event_id = $1 AND reward_status = 'SUCCESS' AND resends = 0 ORDER BY id DESC LIMIT 1`, r.Attendance).Scan(&o.Key, &o.MemberID, &o.Kind, &o.Value)
	if errors.Is(err, pgx.ErrNoRows) {
		return errors.New("there is nothing to damage")
	}
	if err != nil {
		return err
	}
	before, err := r.Provider.Faults(ctx)
	if err != nil {
		return err
	}
	if err := r.Provider.SetFaults(ctx, sandbox.Faults{KeyRetention: time.Nanosecond}); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, r.Provider.SetFaults(context.WithoutCancel(ctx), before))
	}()
	return r.Provider.Pay(ctx, o)
}
