// Package sqs publishes claimed slots to the FIFO queue `admissions`, without delaying visitors.
package sqs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"urr.guru/services/queue/internal/line"
)

const (
	maxBatchSize = 10              // SQS's limit for one batch
	queueSize    = 10_000          // how many admissions may wait to be sent; above it they are dropped
	sendTimeout  = 2 * time.Second // bounds one batch
)

var _ line.Announcer = (*Announcer)(nil)

// Sender is the part of the SQS client that an Announcer needs.
type Sender interface {
	SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, opts ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
}

// Announcer sends admissions in the background.
type Announcer struct {
	client Sender
	url    string
	log    *slog.Logger
	queue  chan line.Admission
}

// New returns an Announcer for a queue; Run sends.
func New(client Sender, url string, log *slog.Logger) *Announcer {
	for _, result := range []string{"sent", "failed", "dropped"} {
		announced.WithLabelValues(result) // start at 0, so that the first one is an increase
	}
	return &Announcer{client: client, url: url, log: log, queue: make(chan line.Admission, queueSize)}
}

// Announce implements line.Announcer. It never blocks: when the queue is full, the admission is
// dropped and counted. The line does not depend on it.
func (a *Announcer) Announce(adm line.Admission) {
	select {
	case a.queue <- adm:
	default:
		announced.WithLabelValues("dropped").Inc()
	}
}

// Run sends until ctx ends, then sends what is queued, for at most sendTimeout.
func (a *Announcer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
			defer cancel()
			for batch := a.fillBatch(nil); len(batch) > 0 && last.Err() == nil; batch = a.fillBatch(nil) {
				a.sendBatch(last, batch)
			}
			return nil
		case first := <-a.queue:
			// Send has its own timeout.
			a.sendBatch(context.WithoutCancel(ctx), a.fillBatch([]line.Admission{first}))
		}
	}
}

func (a *Announcer) fillBatch(batch []line.Admission) []line.Admission {
	for len(batch) < maxBatchSize {
		select {
		case adm := <-a.queue:
			batch = append(batch, adm)
		default:
			return batch
		}
	}
	return batch
}

// message is the message body, a contract with the queue's consumers.
type message struct {
	Action     string `json:"action"`
	EventID    string `json:"eventId"`
	UserID     string `json:"userId"`
	EntryToken string `json:"entryToken"`
	Timestamp  int64  `json:"timestamp"` // epoch ms
}

func (a *Announcer) sendBatch(ctx context.Context, batch []line.Admission) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	entries := make([]types.SendMessageBatchRequestEntry, len(batch))
	for i, adm := range batch {
		body, err := json.Marshal(message{"admitted", adm.EventID, adm.UserID, adm.EntryToken, adm.At.UnixMilli()})
		if err != nil {
			a.recordFailure(ctx, len(batch), err)
			return
		}
		entries[i] = types.SendMessageBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(string(body)),
			MessageGroupId:         aws.String(adm.EventID),
			MessageDeduplicationId: aws.String(adm.UserID + ":" + adm.EventID),
		}
	}
	out, err := a.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &a.url, Entries: entries})
	if err != nil {
		a.recordFailure(ctx, len(batch), err)
		return
	}
	announced.WithLabelValues("sent").Add(float64(len(out.Successful)))
	if len(out.Failed) > 0 {
		a.recordFailure(ctx, len(out.Failed), fmt.Errorf("%s: %s", aws.ToString(out.Failed[0].Code), aws.ToString(out.Failed[0].Message)))
	}
}

func (a *Announcer) recordFailure(ctx context.Context, n int, err error) {
	announced.WithLabelValues("failed").Add(float64(n))
	a.log.WarnContext(ctx, "admissions not announced", "count", n, "error", err)
}

// Disabled drops admissions, for SQS_ENABLED=false.
type Disabled struct{}

func (Disabled) Announce(line.Admission) {}
