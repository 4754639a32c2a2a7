package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/crowd"
)

// SaleInStores judges a sale by what the platform's stores contain.
type SaleInStores struct {
	Stores  *Stores
	EventID string
	// CancelledID is the event that was cancelled during the run; "" if none was.
	CancelledID string
	// CheatsID is the event of users who try to get something for nothing; "" if there is none.
	CheatsID string
	// Patience repeats a read while a store is unavailable, and prints when this begins and ends.
	Patience OutageWait

	letters map[string]int64 // by topic: the number of dead letters before the run
}

func (i *SaleInStores) Begin(ctx context.Context) error {
	_, err := i.Patience.Read(ctx, func(ctx context.Context) (err error) {
		i.letters, err = i.Stores.DeadLetters(ctx)
		return err
	})
	return err
}

func (i *SaleInStores) ReadNumbers(ctx context.Context) (SaleNumbers, error) {
	return i.Stores.ReadNumbers(ctx, i.EventID)
}

func (i *SaleInStores) judge(ctx context.Context, run SaleRun, v *saleFindings) error {
	for _, judgePart := range []func(context.Context, *saleFindings) error{
		i.judgeSales, i.judgeFaults, i.judgeDeadLetters, i.judgeAdmissionOrder, i.judgePresale, i.judgeForgedPasses, i.judgeWithheld,
	} {
		_, err := i.Patience.Read(ctx, func(ctx context.Context) error {
			attempt := *v
			attempt.Findings = slices.Clone(v.Findings)
			err := judgePart(ctx, &attempt)
			if err == nil {
				*v = attempt
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	overThreshold := run.samplesOverThreshold()
	v.OverThreshold = &overThreshold
	if overThreshold > 0 {
		v.Add("%d samples have more than %d active", overThreshold, run.Threshold)
	}
	return nil
}

// Settle waits until the stores are consistent, for at most settleWithin. After an outage of a
// store the time begins again, since the store could not get Kafka events during the outage.
func (i *SaleInStores) Settle(ctx context.Context) error {
	deadline := time.Now().Add(settleWithin)
	for {
		var faults Faults
		waited, err := i.Patience.Read(ctx, func(ctx context.Context) (err error) {
			faults, err = i.faults(ctx)
			return err
		})
		if waited {
			deadline = time.Now().Add(settleWithin)
		}
		if err != nil || len(faults.All()) == 0 || time.Now().After(deadline) {
			return err
		}
		if !loop.Sleep(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

// faults returns the faults of the sale, of memberships, and of the cancelled event, if any.
func (i *SaleInStores) faults(ctx context.Context) (Faults, error) {
	all, err := i.Stores.Faults(ctx, i.EventID)
	if err != nil {
		return all, err
	}
	members, err := i.Stores.Faults(ctx, NoEvent)
	// Open payments are no fault: another user may be paying. The crowd's memberships are all paid.
	members.Open = nil
	all.addSale(members)
	if err == nil && i.CheatsID != "" {
		var cheats Faults
		cheats, err = i.Stores.Faults(ctx, i.CheatsID)
		all.addSale(cheats)
	}
	if err != nil || i.CancelledID == "" {
		return all, err
	}
	cancelled, err := i.Stores.CancelledFaults(ctx, i.CancelledID)
	all.addSale(cancelled)
	return all, err
}

func (i *SaleInStores) judgeSales(ctx context.Context, v *saleFindings) error {
	sales, err := i.Stores.Sales(ctx, i.EventID)
	if err != nil {
		return err
	}
	unbalanced, oversold := sales.Unbalanced, sales.Oversold
	for _, id := range []string{i.CancelledID, i.CheatsID} {
		beside, err := i.Stores.Sales(ctx, id)
		if err != nil {
			return err
		}
		unbalanced, oversold = unbalanced+beside.Unbalanced, oversold+beside.Oversold
	}
	v.Sold, v.Oversold = sales.Sold, oversold+unbalanced
	if unbalanced > 0 {
		v.Add("%d seats are not in the state of their reservation", unbalanced)
	}
	return nil
}

func (i *SaleInStores) judgeFaults(ctx context.Context, v *saleFindings) error {
	faults, err := i.faults(ctx)
	if err != nil {
		return err
	}
	all, unbalanced := faults.All(), len(faults.Unbalanced)
	v.PaidWithoutTicket = len(faults.PaidWithoutTicket) + len(faults.StrayCharges)
	v.Unbalanced, v.opened = &unbalanced, faults.AdmittedAfterRefund
	v.Other += len(all) - v.PaidWithoutTicket - unbalanced - len(v.opened)
	for _, fault := range all {
		v.Add("%s", fault)
	}
	return nil
}

// judgeDeadLetters counts the dead letters that were added since the run began.
func (i *SaleInStores) judgeDeadLetters(ctx context.Context, v *saleFindings) error {
	letters, err := i.Stores.DeadLetters(ctx)
	if err != nil {
		return err
	}
	for topic, n := range letters {
		if fresh := n - i.letters[topic]; fresh > 0 {
			v.Other += int(fresh)
			v.Add("%d events in %s", fresh, topic)
		}
	}
	return nil
}

func (i *SaleInStores) judgeAdmissionOrder(ctx context.Context, v *saleFindings) error {
	admissions, err := i.Stores.Admissions(ctx, i.EventID)
	if err != nil {
		return err
	}
	if len(admissions) == 0 {
		return fmt.Errorf("the line of %s has no record of admissions: the order cannot be judged", i.EventID)
	}
	sale, err := i.Stores.presaleOf(ctx, i.EventID)
	if err != nil {
		return err
	}
	inversions := Inversions(sale.presentFromGeneralSale(admissions))
	n := len(inversions)
	v.OutOfOrder = &n
	for _, pair := range inversions {
		v.Add("out of order: %s (score %d, present since %d, in at %d) was overtaken by %s (score %d, in at %d)",
			pair.Overtaken.User, pair.Overtaken.Score, pair.Overtaken.PresentSince, pair.Overtaken.At, pair.Overtaker.User, pair.Overtaker.Score, pair.Overtaker.At)
	}
	round, err := i.Stores.LatestRound(ctx, i.EventID)
	if err != nil {
		return err
	}
	extra := ExtraTurns(admissions, round)
	turns := len(extra)
	v.ExtraTurns = &turns
	for _, a := range extra {
		v.Add("extra turn: %s was early once, and again with score %d, in at %d", a.User, a.Score, a.At)
	}
	return nil
}

// judgeForgedPasses counts the reservations of visitors who used forged tokens.
func (i *SaleInStores) judgeForgedPasses(ctx context.Context, v *saleFindings) error {
	for _, prefix := range []string{string(crowd.Forges) + "-", "friend-of-", "stranger-to-"} {
		n, err := i.Stores.Reservations(ctx, i.EventID, prefix)
		if err != nil {
			return err
		}
		v.ForgedIn += n
		if n > 0 {
			v.Add("%d reservations of users %s…", n, prefix)
		}
	}
	return nil
}

const (
	breakOversold   = "oversold"
	breakUnticketed = "paid_without_ticket"
	breakUnbalanced = "unbalanced"
	breakPresale    = "presale_in"
	breakOpened     = "opened_after_refund"
)

// SaleFaultKinds returns the kinds of faults that InjectFault accepts.
func SaleFaultKinds() []string {
	return []string{breakOversold, breakUnticketed, breakUnbalanced, breakPresale, breakOpened}
}

// InjectFault damages the stored data directly, to show that JudgeSale detects the fault.
func (i *SaleInStores) InjectFault(ctx context.Context, fault string) error {
	switch fault {
	case breakOversold:
		return i.Stores.DuplicateTicket(ctx, i.EventID)
	case breakUnbalanced:
		return i.Stores.ForgetRefund(ctx, i.EventID)
	case breakPresale:
		return i.Stores.LetInEarly(ctx, i.EventID)
	case breakOpened:
		return i.Stores.AdmitRefunded(ctx, i.EventID)
	default:
		return i.Stores.LoseTicket(ctx, i.EventID)
	}
}

// DuplicateTicket issues a ticket of the event a second time, to show that Sales detects it. For
// that it drops constraints, so the database has to be reset afterwards.
func (s *Stores) DuplicateTicket(ctx context.Context, eventID string) error {
	if _, err := s.ticket.Exec(ctx, `DROP INDEX IF EXISTS tickets_one_live, tickets_one_per_seat`); err != nil {
		return fmt.Errorf("damage %s: %w", eventID, err)
	}
	return s.injectBySQL(ctx, `
		INSERT INTO tickets (ticket_id, reservation_id, n, event_id, user_id, section, seat_id, price, paid, fee, currency, status)
		SELECT gen_random_uuid(), reservation_id, n, event_id, 'somebody-else', section, seat_id, price, 0, 0, currency, 'USED'
		FROM tickets WHERE event_id = $1 AND status = 'VALID' LIMIT 1`, eventID)
}

// LoseTicket deletes one of the event's valid tickets, to show that PaidWithoutTicket detects it.
func (s *Stores) LoseTicket(ctx context.Context, eventID string) error {
	return s.injectBySQL(ctx, `
		DELETE FROM tickets WHERE ticket_id = (SELECT ticket_id FROM tickets WHERE event_id = $1 AND status = 'VALID' LIMIT 1)`, eventID)
}

// ForgetRefund sets the refunded amount of a ticket to 0, to show that Unbalanced detects it.
func (s *Stores) ForgetRefund(ctx context.Context, eventID string) error {
	return s.injectBySQL(ctx, `
		UPDATE tickets SET given = 0 WHERE ticket_id = (SELECT ticket_id FROM tickets WHERE event_id = $1 AND given > 0 LIMIT 1)`, eventID)
}

// AdmitRefunded stores a scan that admits a refunded ticket, to show that Faults detects it.
func (s *Stores) AdmitRefunded(ctx context.Context, eventID string) error {
	return s.injectBySQL(ctx, `
		INSERT INTO scans (event_id, scan_id, ticket_id, epoch, device, user_id, result, scanned_at, recorded_at)
		SELECT event_id, gen_random_uuid(), ticket_id, 1, '', '', 'ADMITTED', clock_timestamp(), clock_timestamp()
		FROM tickets WHERE event_id = $1 AND status = 'REFUNDED' LIMIT 1`, eventID)
}

func (s *Stores) injectBySQL(ctx context.Context, sql, eventID string) error {
	tag, err := s.ticket.Exec(ctx, sql, eventID)
	if err != nil {
		return fmt.Errorf("damage %s: %w", eventID, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("damage %s: there was no ticket to damage", eventID)
	}
	return nil
}
