package payout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/reward/internal/payout"
)

var now = time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

func policy() payout.Policy {
	return payout.Policy{
		CallTimeout: 5 * time.Second, Lease: 30 * time.Second, MaxAttempts: 10, RetryMin: 5 * time.Minute, RetryMax: 6 * time.Hour,
		MaxRecoveries: 5, SettleTime: 15 * time.Minute, KeyRetention: 24 * time.Hour, LookupRetention: 7 * 24 * time.Hour,
		HoldAfter: 48 * time.Hour,
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	type want struct {
		status             payout.Status
		retries, resends   int
		due, unknown, held bool
		code               string
	}
	processing := payout.Allocation{Status: payout.Processing, Version: 3, IdempotencyKey: "k", LastCallAt: ago(time.Second)}
	with := func(change func(*payout.Allocation)) payout.Allocation { a := processing; change(&a); return a }
	pay := func(o payout.CallOutcome) payout.EndedCall {
		return payout.EndedCall{Version: 3, Action: payout.Pay, Result: payout.CallResult{Outcome: o, TransactionID: "tx"}}
	}
	ask := func(o payout.CallOutcome) payout.EndedCall { c := pay(o); c.Action = payout.Ask; return c }
	exhausted := func(a *payout.Allocation) { a.RetryCount = 10 }
	last := func(a *payout.Allocation) { a.RetryCount = 9 }
	// SettleTime is over now, but was not yet when the provider was asked.
	justSettled := func(a *payout.Allocation) {
		a.UnknownSince, a.LastCallAt = ago(time.Hour), ago(15*time.Minute+10*time.Second)
	}
	askedEarlier := func(d time.Duration) payout.EndedCall { c := ask(payout.Absent); c.Result.Age = d; return c }
	cancelling := func(a *payout.Allocation) { a.Cancelling = true }
	unknown := func(a *payout.Allocation) { a.UnknownSince = ago(time.Minute) }
	settled := func(a *payout.Allocation) { a.UnknownSince, a.LastCallAt = ago(time.Hour), ago(16*time.Minute) }
	failing := func(a *payout.Allocation) { a.FailingSince = ago(49 * time.Hour) }
	askedFirst := func(a *payout.Allocation) { a.AskFirst = true }
	forgotten := func(a *payout.Allocation) { a.UnknownSince, a.LastCallAt = ago(8*24*time.Hour), ago(time.Hour) }
	all := func(fs ...func(*payout.Allocation)) func(*payout.Allocation) {
		return func(a *payout.Allocation) {
			for _, f := range fs {
				f(a)
			}
		}
	}
	for name, tc := range map[string]struct {
		a    payout.Allocation
		c    payout.EndedCall
		want want
	}{
		"paid":                               {processing, pay(payout.Paid), want{status: payout.Success}},
		"paid, earlier unknown":              {with(unknown), ask(payout.Paid), want{status: payout.Success}},
		"paid, to be cancelled":              {with(cancelling), pay(payout.Paid), want{status: payout.Success}},
		"refused":                            {processing, pay(payout.Refused), want{status: payout.Failed, retries: 1, due: true, code: payout.CodeRefused}},
		"refused the last time":              {with(last), pay(payout.Refused), want{status: payout.Failed, retries: 10, code: payout.CodeRefused}},
		"refused for good":                   {processing, pay(payout.RefusedForGood), want{status: payout.Failed, retries: 10, code: payout.CodeRefused}},
		"refused, earlier unknown":           {with(all(unknown, last)), pay(payout.Refused), want{status: payout.Failed, retries: 10, due: true, unknown: true, code: payout.CodeRefused}},
		"refused for good, earlier unknown":  {with(unknown), pay(payout.RefusedForGood), want{status: payout.Failed, retries: 10, due: true, unknown: true, code: payout.CodeRefused}},
		"refused, to be cancelled":           {with(cancelling), pay(payout.Refused), want{status: payout.Cancelled, retries: 1}},
		"refused, unknown, to be cancelled":  {with(all(unknown, cancelling)), pay(payout.Refused), want{status: payout.Failed, retries: 1, due: true, unknown: true, code: payout.CodeRefused}},
		"unknown":                            {processing, pay(payout.Unknown), want{status: payout.Failed, retries: 1, due: true, unknown: true, code: payout.CodeUnknown}},
		"unknown after a question":           {with(unknown), ask(payout.Unknown), want{status: payout.Failed, due: true, unknown: true, code: payout.CodeUnknown}},
		"unknown, forgotten":                 {with(forgotten), ask(payout.Unknown), want{status: payout.Failed, unknown: true, held: true, code: payout.CodeUnknownTooLong}},
		"busy burns no attempt":              {processing, pay(payout.Busy), want{status: payout.Failed, due: true, unknown: true, code: payout.CodeUnavailable}},
		"not sent burns no attempt":          {processing, pay(payout.NotSent), want{status: payout.Failed, due: true, code: payout.CodeUnavailable}},
		"not sent, to be cancelled":          {with(cancelling), pay(payout.NotSent), want{status: payout.Cancelled}},
		"not sent for too long":              {with(failing), pay(payout.NotSent), want{status: payout.Failed, held: true, code: payout.CodeFailingTooLong}},
		"refused for good, after long":       {with(failing), pay(payout.RefusedForGood), want{status: payout.Failed, retries: 10, code: payout.CodeRefused}},
		"not sent for long, to be cancelled": {with(all(failing, cancelling)), pay(payout.NotSent), want{status: payout.Cancelled}},
		"unknown for long, still known":      {with(all(failing, unknown)), ask(payout.Unknown), want{status: payout.Failed, due: true, unknown: true, code: payout.CodeUnknown}},
		"asked first, no answer":             {with(askedFirst), ask(payout.Unknown), want{status: payout.Failed, due: true, code: payout.CodeUnknown}},
		"asked first, no answer for long":    {with(all(askedFirst, failing)), ask(payout.Unknown), want{status: payout.Failed, held: true, code: payout.CodeFailingTooLong}},
		"asked first, no answer, cancelled":  {with(all(askedFirst, cancelling)), ask(payout.Unknown), want{status: payout.Failed, due: true, code: payout.CodeUnknown}},
		"overloaded again and again":         {with(all(settled, failing)), ask(payout.Absent), want{status: payout.Failed, held: true, code: payout.CodeFailingTooLong}},
		"absent, a call may still pay":       {with(unknown), ask(payout.Absent), want{status: payout.Failed, due: true, unknown: true, code: payout.CodeUnknown}},
		"absent, all calls are settled":      {with(settled), ask(payout.Absent), want{status: payout.Failed, due: true}},
		"absent, settled, exhausted":         {with(all(settled, exhausted)), ask(payout.Absent), want{status: payout.Failed, retries: 10, code: payout.CodeNotPaid}},
		"absent, settled, to be cancelled":   {with(all(settled, cancelling)), ask(payout.Absent), want{status: payout.Cancelled}},
		"absent, asked before it settled":    {with(all(justSettled, cancelling)), askedEarlier(8 * time.Second), want{status: payout.Failed, due: true, unknown: true, code: payout.CodeUnknown}},
		"absent, asked after it settled":     {with(all(justSettled, cancelling)), askedEarlier(4 * time.Second), want{status: payout.Cancelled}},
		"absent, forgotten":                  {with(forgotten), ask(payout.Absent), want{status: payout.Failed, unknown: true, held: true, code: payout.CodeUnknownTooLong}},
		"absent, forgotten, to be cancelled": {with(all(forgotten, cancelling)), ask(payout.Absent), want{status: payout.Failed, unknown: true, held: true, code: payout.CodeUnknownTooLong}},
		"voided":                             {with(unknown), ask(payout.Voided), want{status: payout.Failed, resends: 1, due: true}},
		"voided, exhausted":                  {with(all(unknown, exhausted)), ask(payout.Voided), want{status: payout.Failed, retries: 10, resends: 1, code: payout.CodeNotPaid}},
		"voided, to be cancelled":            {with(all(unknown, cancelling)), ask(payout.Voided), want{status: payout.Cancelled, resends: 1}},
		"voided, forgotten":                  {with(forgotten), ask(payout.Voided), want{status: payout.Failed, resends: 1, unknown: true, held: true, code: payout.CodeUnknownTooLong}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after, ok := payout.Decide(tc.a, tc.c, now, policy())
			require.True(t, ok)
			require.Equal(t, tc.want, want{
				after.Status, after.RetryCount, after.Resends, !after.NextRetryAt.IsZero(), !after.UnknownSince.IsZero(), !after.HeldAt.IsZero(), after.Code,
			})
			require.Equal(t, after.Status == payout.Success, after.TransactionID == "tx")
			require.Equal(t, after.NextRetryAt.IsZero(), after.FailingSince.IsZero(), "it fails as long as it is tried again")
			unanswered := tc.c.Action == payout.Ask && tc.c.Result.Outcome == payout.Unknown
			require.Equal(t, unanswered, after.AskFirst, "the key may be void: no payment is sent under it")
		})
	}
}

// A worker that has lost its lease may report a payment, and nothing else.
func TestLateOutcomes(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]payout.Allocation{
		"claimed again": {Status: payout.Processing, Version: 4},
		"to be retried": {Status: payout.Failed, Version: 4, NextRetryAt: now, UnknownSince: ago(time.Minute)},
		"given up":      {Status: payout.Failed, Version: 4},
		"cancelled":     {Status: payout.Cancelled, Version: 4},
		"released":      {Status: payout.Pending, Version: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, o := range []payout.CallOutcome{payout.Refused, payout.RefusedForGood, payout.Unknown, payout.Busy, payout.NotSent, payout.Absent, payout.Voided} {
				after, ok := payout.Decide(a, payout.EndedCall{Version: 3, Action: payout.Pay, Result: payout.CallResult{Outcome: o}}, now, policy())
				require.False(t, ok, o)
				require.Equal(t, a, after, o)
			}
			after, ok := payout.Decide(a, payout.EndedCall{Version: 3, Action: payout.Pay, Result: payout.CallResult{Outcome: payout.Paid, TransactionID: "tx"}}, now, policy())
			require.True(t, ok)
			require.Equal(t, payout.Success, after.Status)
			final := name == "given up" || name == "cancelled"
			require.Equal(t, final, after.Code == payout.CodePaidAfterwards)
		})
	}
	paid := payout.Allocation{Status: payout.Success, TransactionID: "first"}
	_, ok := payout.Decide(paid, payout.EndedCall{Result: payout.CallResult{Outcome: payout.Paid, TransactionID: "second"}}, now, policy())
	require.False(t, ok)
}

func TestSentKey(t *testing.T) {
	t.Parallel()
	a := payout.Allocation{IdempotencyKey: "rand-2-10001-log-3"}
	require.Equal(t, "rand-2-10001-log-3", a.KeyToSend())
	a.Resends = 2
	require.Equal(t, "rand-2-10001-log-3-R2", a.KeyToSend())
}
