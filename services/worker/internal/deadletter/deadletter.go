// Package deadletter handles the admissions that the queue service announces in SQS, and keeps
// those that cannot be read for operators.
package deadletter

import (
	"context"

	"urr.guru/pkg/promotion"
)

const (
	// MaxRedrives is the maximum number of dead letters that one call sends again.
	MaxRedrives = 100
	// maxPages is the most pages, of MaxRedrives dead letters, that a call without ids reads.
	maxPages = 10
)

// RedriveResult has the ids of the dead letters that a redrive has sent again, and that it has refused.
type RedriveResult struct {
	Redriven, Refused []string
	// Next is the cursor behind the letters that were read; empty at the end.
	Next string
}

// Store keeps the dead letters of admissions.
type Store interface {
	// PutAdmission writes a dead letter; it may be repeated.
	PutAdmission(ctx context.Context, l promotion.DeadLetter) error
	// Admissions reads a page after a sort key, latest first; OldestAdmissions does so oldest first.
	Admissions(ctx context.Context, after string, limit int) (page []promotion.DeadLetter, next string, err error)
	OldestAdmissions(ctx context.Context, after string, limit int) (page []promotion.DeadLetter, next string, err error)
	Admission(ctx context.Context, id string) (l promotion.DeadLetter, found bool, err error)
	MarkRedriven(ctx context.Context, l promotion.DeadLetter) error
}

// List returns a page of the dead letters behind a cursor, the latest first.
func (a *Admissions) List(ctx context.Context, cursor string, limit int) (page []promotion.DeadLetter, next string, err error) {
	return a.store.Admissions(ctx, cursor, limit)
}

// Redrive sends dead letters to the queue of admissions again, each once. Without ids it sends the
// oldest behind a cursor that have not been redriven.
func (a *Admissions) Redrive(ctx context.Context, ids []string, cursor string) (out RedriveResult, err error) {
	if len(ids) == 0 {
		return a.redriveOldest(ctx, cursor)
	}
	for _, id := range ids {
		l, found, err := a.store.Admission(ctx, id)
		if err != nil {
			return RedriveResult{}, err
		}
		if !found || l.RedrivenAt != 0 {
			out.Refused = append(out.Refused, id)
			continue
		}
		if err := a.redrive(ctx, l, &out); err != nil {
			return RedriveResult{}, err
		}
	}
	return out, nil
}

func (a *Admissions) redriveOldest(ctx context.Context, cursor string) (out RedriveResult, err error) {
	out.Next = cursor
	for range maxPages {
		page, next, err := a.store.OldestAdmissions(ctx, out.Next, MaxRedrives)
		if err != nil {
			return RedriveResult{}, err
		}
		for _, l := range page {
			if len(out.Redriven) == MaxRedrives {
				return out, nil
			}
			if out.Next = l.ID; l.RedrivenAt != 0 {
				continue
			}
			if err := a.redrive(ctx, l, &out); err != nil {
				return RedriveResult{}, err
			}
		}
		if out.Next = next; next == "" {
			break
		}
	}
	return out, nil
}

// redrive sends a dead letter to the queue again. If the process dies before MarkRedriven, the
// letter may be sent twice; then its admission is logged and counted twice.
func (a *Admissions) redrive(ctx context.Context, l promotion.DeadLetter, out *RedriveResult) error {
	if a.queue == nil || !readable(l.Body) {
		out.Refused = append(out.Refused, l.ID)
		return nil
	}
	if err := a.queue.Forward(ctx, promotion.Delivery{Body: l.Body}, "redriven-"+l.ID); err != nil {
		return err
	}
	out.Redriven = append(out.Redriven, l.ID)
	return a.store.MarkRedriven(ctx, l)
}
