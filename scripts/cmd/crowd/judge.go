package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
)

// settleWithin is how long after the last visitor late webhooks and the saga's events may still
// arrive.
const settleWithin = 45 * time.Second

// findings is the verdict with its evidence.
type findings struct {
	Verdict
	demo.Findings
}

// Judge determines the verdict.
func (d *saleDemo) Judge(ctx context.Context) (Verdict, demo.Findings, error) {
	v := findings{Verdict: Verdict{Visitors: d.cfg.Visitors, Seats: d.cfg.Seats}}
	tally := d.crowd.Tally()
	if err := d.auditor.judge(ctx, tally, &v); err != nil {
		return v.Verdict, v.Findings, err
	}
	v.ForgedIn += int(tally.ForgedIn.Load())
	for _, violation := range tally.Violations() {
		v.Add("%s", violation)
	}
	return v.Verdict, v.Findings, nil
}

// storeAuditor reads the verdict from the stores.
type storeAuditor struct {
	stores    *audit.Stores
	threshold int
	sale      crowd.Sale
	series    *audit.Series
	// patience waits for unavailable stores and reports them.
	patience audit.OutageWait
	// letters are the dead letters from before the run.
	letters map[string]int64
}

func (i *storeAuditor) begin(ctx context.Context) error {
	_, err := i.patience.Read(ctx, func(ctx context.Context) (err error) {
		i.letters, err = i.stores.DeadLetters(ctx)
		return err
	})
	return err
}

func (i *storeAuditor) sample(ctx context.Context) (audit.Sample, error) {
	return i.stores.Sample(ctx, i.sale.EventID)
}

func (i *storeAuditor) judge(ctx context.Context, _ *crowd.Tally, v *findings) error {
	for _, part := range []func(context.Context, *findings) error{i.judgeSales, i.judgeFaults, i.judgeDeadLetters, i.judgeOrder, i.judgeForgedPasses} {
		_, err := i.patience.Read(ctx, func(ctx context.Context) error {
			attempt := *v
			attempt.Findings = slices.Clone(v.Findings)
			err := part(ctx, &attempt)
			if err == nil {
				*v = attempt
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	over := i.series.Over(int64(i.threshold))
	v.OverThreshold = &over
	if over > 0 {
		v.Add("%d samples have more than %d active", over, i.threshold)
	}
	return nil
}

// settle waits until the stores are consistent, or until that takes too long. The time starts again
// when all stores are available: events in transit wait for them too.
func (i *storeAuditor) settle(ctx context.Context) error {
	deadline := time.Now().Add(settleWithin)
	for {
		var faults audit.Faults
		waited, err := i.patience.Read(ctx, func(ctx context.Context) (err error) {
			faults, err = i.stores.Faults(ctx, i.sale.EventID)
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

func (i *storeAuditor) judgeSales(ctx context.Context, v *findings) error {
	sales, err := i.stores.Sales(ctx, i.sale.EventID)
	if err != nil {
		return err
	}
	v.Sold, v.Oversold = sales.Sold, sales.Oversold+sales.Unbalanced
	if sales.Unbalanced > 0 {
		v.Add("%d seats are not in the state of their reservation", sales.Unbalanced)
	}
	return nil
}

func (i *storeAuditor) judgeFaults(ctx context.Context, v *findings) error {
	faults, err := i.stores.Faults(ctx, i.sale.EventID)
	if err != nil {
		return err
	}
	all := faults.All()
	v.PaidWithoutTicket = len(faults.PaidWithoutTicket) + len(faults.StrayCharges)
	v.Other += len(all) - v.PaidWithoutTicket
	for _, fault := range all {
		v.Add("%s", fault)
	}
	return nil
}

// judgeDeadLetters counts the dead letters since the beginning of the run.
func (i *storeAuditor) judgeDeadLetters(ctx context.Context, v *findings) error {
	letters, err := i.stores.DeadLetters(ctx)
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

func (i *storeAuditor) judgeOrder(ctx context.Context, v *findings) error {
	admissions, err := i.stores.Admissions(ctx, i.sale.EventID)
	if err != nil {
		return err
	}
	if len(admissions) == 0 {
		return fmt.Errorf("the line of %s has no record of admissions: the order cannot be judged", i.sale.EventID)
	}
	inversions := audit.Inversions(admissions)
	n := len(inversions)
	v.OutOfOrder = &n
	for _, i := range inversions {
		v.Add("out of order: %s (score %d, present since %d, in at %d) was overtaken by %s (score %d, in at %d)",
			i.First.User, i.First.Score, i.First.PresentSince, i.First.At, i.Then.User, i.Then.Score, i.Then.At)
	}
	return nil
}

// judgeForgedPasses counts the traces of forgers in the stores.
func (i *storeAuditor) judgeForgedPasses(ctx context.Context, v *findings) error {
	for _, prefix := range []string{string(crowd.Forges) + "-", "friend-of-", "stranger-to-"} {
		n, err := i.stores.Reservations(ctx, i.sale.EventID, prefix)
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

// Damages that BREAK can select.
const (
	breakOversold   = "oversold"
	breakUnticketed = "paid_without_ticket"
)

func (i *storeAuditor) damage(ctx context.Context, what string) error {
	if what == breakOversold {
		return i.stores.DuplicateTicket(ctx, i.sale.EventID)
	}
	return i.stores.LoseTicket(ctx, i.sale.EventID)
}
