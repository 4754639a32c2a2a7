// Package deadletter lists and redrives the dead letters of queues that have no requests in them:
// the admissions of SQS, and the topics of Kafka.
package deadletter

import (
	"context"
	"slices"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
)

const (
	// MaxRedrives is the most dead letters that one call puts back.
	MaxRedrives = 100
	// A call without ids looks through at most maxPages of pageSize dead letters.
	pageSize = 100
	maxPages = 10
	// maxBody is how many bytes of a message are shown.
	maxBody = 4096
)

// Letter is a dead letter. Times are epoch milliseconds, 0 is never.
type Letter struct {
	ID, Group, Key, Type, Body, Error, Origin string
	At, RedrivenAt                            int64
}

// Result of a redrive, by the ids of letters.
type Result struct {
	Redriven, Refused []string
	// More says that there may be more letters that have not been redriven.
	More bool
}

// Store keeps the dead letters of admissions, and when those of Kafka topics were redriven.
type Store interface {
	// PutAdmission writes a dead letter; it may be repeated.
	PutAdmission(ctx context.Context, l promotion.DeadLetter) error
	// Admissions reads a page, the latest first, behind a sort key.
	Admissions(ctx context.Context, after string, limit int) (page []promotion.DeadLetter, next string, err error)
	Admission(ctx context.Context, id string) (l promotion.DeadLetter, found bool, err error)
	MarkRedriven(ctx context.Context, l promotion.DeadLetter) error
	// Redriven are the times at which dead letters of a topic were redriven.
	Redriven(ctx context.Context, topic string, ids []string) (map[string]int64, error)
	NoteRedriven(ctx context.Context, topic string, ids []string) error
}

// source is a queue with dead letters.
type source interface {
	list(ctx context.Context, cursor string, limit int) (page []Letter, next string, err error)
	// get returns those letters with these ids that exist.
	get(ctx context.Context, ids []string) ([]Letter, error)
	// redrive puts letters back and notes that; it returns those that cannot be put back.
	redrive(ctx context.Context, letters []Letter) (refused []string, err error)
}

// Queues are the queues whose dead letters are not requests, by name.
type Queues struct{ sources map[string]source }

// New makes the Queues of the admissions and of the Kafka topics.
func New(admissions *Admissions, topics map[string]*Topic) *Queues {
	q := &Queues{sources: map[string]source{"admissions": admissions}}
	for name, t := range topics {
		q.sources[name] = t
	}
	return q
}

// List returns a page of the dead letters of a queue, about the latest first.
func (q *Queues) List(ctx context.Context, queue, cursor string, limit int) (page []Letter, next string, err error) {
	s, known := q.sources[queue]
	if !known {
		return nil, "", errs.ErrNotFound
	}
	return s.list(ctx, cursor, limit)
}

// Redrive puts dead letters back, each once. Without ids it takes those that have not been
// redriven.
func (q *Queues) Redrive(ctx context.Context, queue string, ids []string) (out Result, err error) {
	s, known := q.sources[queue]
	if !known {
		return out, errs.ErrNotFound
	}
	var letters []Letter
	if len(ids) > 0 {
		letters, err = lettersByID(ctx, s, ids, &out)
	} else {
		letters, err = lettersNotRedriven(ctx, s, &out)
	}
	if err != nil || len(letters) == 0 {
		return out, err
	}
	refused, err := s.redrive(ctx, letters)
	if err != nil {
		return Result{}, err
	}
	out.Refused = append(out.Refused, refused...)
	for _, l := range letters {
		if !slices.Contains(refused, l.ID) {
			out.Redriven = append(out.Redriven, l.ID)
		}
	}
	return out, nil
}

// lettersByID returns the letters with these ids that were not redriven yet. The other ids are
// added to out as refused.
func lettersByID(ctx context.Context, s source, ids []string, out *Result) ([]Letter, error) {
	found, err := s.get(ctx, ids)
	if err != nil {
		return nil, err
	}
	byID := map[string]Letter{}
	for _, l := range found {
		byID[l.ID] = l
	}
	var letters []Letter
	for _, id := range ids {
		l, exists := byID[id]
		if !exists || l.RedrivenAt != 0 {
			out.Refused = append(out.Refused, id)
			continue
		}
		letters = append(letters, l)
		delete(byID, id) // an id that is named twice is redriven once
	}
	return letters, nil
}

// lettersNotRedriven returns the letters among the latest that were not redriven yet, the earliest
// first.
func lettersNotRedriven(ctx context.Context, s source, out *Result) ([]Letter, error) {
	var letters []Letter
	cursor := ""
	for range maxPages {
		page, next, err := s.list(ctx, cursor, pageSize)
		if err != nil {
			return nil, err
		}
		for _, l := range page {
			switch {
			case l.RedrivenAt != 0:
			case len(letters) == MaxRedrives:
				out.More = true
			default:
				letters = append(letters, l)
			}
		}
		if cursor = next; cursor == "" || out.More {
			break
		}
	}
	out.More = out.More || cursor != ""
	slices.Reverse(letters)
	return letters, nil
}

// truncated returns what operators see of a message.
func truncated(body string) string { return body[:min(len(body), maxBody)] }
