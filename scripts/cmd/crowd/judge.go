package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
)

// settleWithin is how long after the last visitor what is still on its way (late webhooks, the saga's events) may arrive.
const settleWithin = 45 * time.Second

// maxFindings keeps the report readable when much is wrong.
const maxFindings = 10

// judged is the verdict with what it rests on.
type judged struct {
	Verdict
	Findings []string
}

// judge reads the truth from the stores.
func (d *demo) judge(ctx context.Context) (judged, error) {
	if err := d.settle(ctx); err != nil {
		return judged{}, err
	}
	if d.cfg.Break != "" {
		if err := d.damage(ctx); err != nil {
			return judged{}, err
		}
	}
	v := judged{Verdict: Verdict{
		Visitors: d.cfg.Visitors, Seats: d.cfg.Seats,
		OverThreshold: d.series.Over(int64(d.cfg.Threshold)),
	}}
	for _, part := range []func(context.Context, *judged) error{d.judgeSales, d.judgeOrder, d.judgePasses} {
		if err := part(ctx, &v); err != nil {
			return judged{}, err
		}
	}
	if v.OverThreshold > 0 {
		v.find("%d samples have more than %d active", v.OverThreshold, d.cfg.Threshold)
	}
	return v, nil
}

// settle waits until every paid order has its tickets or its refund.
func (d *demo) settle(ctx context.Context) error {
	deadline := time.Now().Add(settleWithin)
	for {
		open, err := d.stores.PaidWithoutTicket(ctx, d.sale.EventID)
		if err != nil {
			return err
		}
		if len(open) == 0 || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (d *demo) judgeSales(ctx context.Context, v *judged) error {
	sales, err := d.stores.Sales(ctx, d.sale.EventID)
	if err != nil {
		return err
	}
	v.Sold, v.Oversold = sales.Sold, sales.Oversold+sales.Unbalanced
	if sales.Unbalanced > 0 {
		v.find("%d seats are not in the state of their reservation", sales.Unbalanced)
	}
	unticketed, err := d.stores.PaidWithoutTicket(ctx, d.sale.EventID)
	if err != nil {
		return err
	}
	v.PaidWithoutTicket = len(unticketed)
	for _, o := range unticketed {
		v.find("paid without ticket: %s", o)
	}
	return nil
}

func (d *demo) judgeOrder(ctx context.Context, v *judged) error {
	admissions, err := d.stores.Admissions(ctx, d.sale.EventID)
	if err != nil {
		return err
	}
	if len(admissions) == 0 {
		return fmt.Errorf("the line of %s has no record of admissions: the order cannot be judged", d.sale.EventID)
	}
	inversions := audit.Inversions(admissions)
	v.OutOfOrder = len(inversions)
	for _, i := range inversions {
		v.find("out of order: %s (score %d, present since %d, in at %d) was overtaken by %s (score %d, in at %d)",
			i.First.User, i.First.Score, i.First.PresentSince, i.First.At, i.Then.User, i.Then.Score, i.Then.At)
	}
	return nil
}

// judgePasses counts the attempts that got an answer they should not have, and the traces of forgers in the stores.
func (d *demo) judgePasses(ctx context.Context, v *judged) error {
	tally := d.crowd.Tally()
	v.ForgedIn = int(tally.ForgedIn.Load())
	if passes := tally.ForgedPasses(); len(passes) > 0 {
		v.find("let in with: %s", strings.Join(passes, ", "))
	}
	for _, prefix := range []string{string(crowd.Forges) + "-", "friend-of-", "stranger-to-"} {
		n, err := d.stores.Reservations(ctx, d.sale.EventID, prefix)
		if err != nil {
			return err
		}
		v.ForgedIn += n
		if n > 0 {
			v.find("%d reservations of users %s…", n, prefix)
		}
	}
	return nil
}

func (v *judged) find(format string, args ...any) {
	if len(v.Findings) < maxFindings {
		v.Findings = append(v.Findings, fmt.Sprintf(format, args...))
	}
}

// What BREAK may damage.
const (
	breakOversold   = "oversold"
	breakUnticketed = "paid_without_ticket"
)

func (d *demo) damage(ctx context.Context) error {
	fmt.Printf("damaging the stores on purpose (BREAK=%s)\n", d.cfg.Break)
	if d.cfg.Break == breakOversold {
		return d.stores.DuplicateTicket(ctx, d.sale.EventID)
	}
	return d.stores.LoseTicket(ctx, d.sale.EventID)
}
