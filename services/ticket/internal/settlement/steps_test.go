package settlement_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/settlement"
)

// notOfThisKind is the answer to a step that another kind of purchase has.
const notOfThisKind = "none"

// payTimes are what the payment service asks for: a page and a charge, as for Toss Payments. A claim
// without a time asks for purchase.PayWithin.
var payTimes = map[string]purchase.PayTime{ //nolint:gochecknoglobals // a constant
	"begin":  {},
	"open":   {Within: 12 * time.Minute, AtLeast: 3 * time.Minute, Opens: true},
	"charge": {Within: 10 * time.Minute, AtLeast: 3 * time.Minute},
}

// failures are the reasons for which it aborts payments.
var failures = map[string]purchase.Failure{ //nolint:gochecknoglobals // a constant
	"abort": {}, "decline": {Declined: true}, "unopened": {Unopened: true},
}

// do takes a step, and returns the answer: ok, with the end of the time to pay if it was asked for,
// or the reason of an error.
func (p *sale) do(t *testing.T, step string) string {
	t.Helper()
	words := append(strings.Fields(step), "", "")
	after, err := time.ParseDuration(words[0])
	require.NoError(t, err)
	b := &p.batch
	b.Now, b.NewlyEnded, b.Notices, p.passed = noon.Add(after), nil, nil, nil
	verb, arg, last := words[1], words[2], words[3]
	ctx, payment, closing := t.Context(), paymentNamed(arg), b.Closings["e"]
	if pt, ok := payTimes[verb]; ok {
		return answered(p.BeginPayment(ctx, cmp.Or(last, "u"), p.id, payment, pt))
	}
	if why, ok := failures[verb]; ok {
		return reasonOf(p.AbortPayment(ctx, p.id, payment, why))
	}
	switch verb {
	case "payable":
		return answered(p.Payable(ctx, cmp.Or(arg, "u"), p.id))
	case "extend":
		p.extend(payment)
	case "settle":
		e := p.eventOf(payment)
		forge(&e.Payment, last)
		err = b.Apply([]settlement.PaymentEvent{e})
	case "refund": // before its confirmation is heard of
		b.Ended[payment] = purchase.ReasonRefunded
	case "event":
		closing.State = event.State(arg)
	case "event-closes":
		closing.ClosesAt = b.Now
	case "free":
		*p.amount = 0
	case "blocked":
		p.blocked = true
	default:
		act, ok := p.acts[verb]
		if !ok {
			return notOfThisKind
		}
		err = act(ctx, arg)
	}
	b.Closings["e"] = closing
	return reasonOf(err)
}

// forge changes a confirmed payment to another one than was begun.
func forge(p *purchase.Payment, how string) {
	switch how {
	case "cheap":
		p.Amount--
	case "dollars":
		p.Currency = "USD"
	case "whole":
		p.WholeOnly = true
	default:
		p.UserID = cmp.Or(how, p.UserID)
	}
}

func answered(p *purchase.Payable, err error) string {
	if err != nil {
		return reasonOf(err)
	}
	return "ok until " + offset(p.ExpiresAt)
}

func reasonOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, settlement.ErrNotBegun):
		return "(not begun)"
	default:
		return errs.From(err).Reason
	}
}

// succeed takes steps that succeed.
func (p *sale) succeed(t *testing.T, steps string) {
	t.Helper()
	for step := range strings.SplitSeq(steps, "; ") {
		require.Equal(t, "ok", p.do(t, step)[:2], "%s: %s", p.kind, step)
	}
}

// paymentNamed returns the id of p1, p2…, and uuid.Nil for any other word.
func paymentNamed(name string) (id uuid.UUID) {
	if n, ok := strings.CutPrefix(name, "p"); ok && len(n) == 1 {
		id[0] = n[0]
	}
	return id
}

func paymentName(id uuid.UUID) string {
	if id == uuid.Nil {
		return "-"
	}
	return "p" + string(id[:1])
}

func paymentNamesOf(ids []uuid.UUID) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = paymentName(id)
	}
	return names
}

// offset returns the time after noon, as in steps; "-" for no time.
func offset(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	text := at.Sub(noon).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}
