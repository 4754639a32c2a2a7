// Package sqs publishes to an SQS FIFO queue which visitors got a slot, without delaying them.
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
	maxBatchSize = 10              // the most messages in one call to SQS
	queueSize    = 10_000          // the most that wait to be sent; further ones are dropped
	sendTimeout  = 2 * time.Second // the time limit of one call to SQS
)

var _ line.Announcer = (*Announcer)(nil)

// Sender is the part of the SQS client that an Announcer needs.
type Sender interface {
	SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, opts ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
}

// Announcer sends admissions (visitors who got a slot) to SQS in the background.
type Announcer struct {
	client Sender
	url    string
	log    *slog.Logger
	queue  chan line.Admission
}

// New makes an Announcer for the SQS queue at url. It sends nothing until Run is called.
func New(client Sender, url string, log *slog.Logger) *Announcer {
	for _, result := range []string{"sent", "failed", "dropped"} {
		announced.WithLabelValues(result) // creates the counter at 0, so that the first one counts
	}
	return &Announcer{client: client, url: url, log: log, queue: make(chan line.Admission, queueSize)}
}

// Announce queues an admission to be sent. It never blocks. If too many admissions wait, this one
// is dropped and counted; the line does not depend on it.
func (a *Announcer) Announce(adm line.Admission) {
	select {
	case a.queue <- adm:
	default:
		announced.WithLabelValues("dropped").Inc()
	}
}

// Run sends admissions until ctx ends, and then sends the waiting ones, for at most sendTimeout.
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
			// sendBatch sets a timeout.
			a.sendBatch(context.WithoutCancel(ctx), a.fillBatch([]line.Admission{first}))
		}
	}
}

// fillBatch adds waiting admissions to the batch, up to maxBatchSize. It does not wait for more.
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

// admissionMessage is the JSON body of an SQS message. Consumers outside the platform depend on it.
type admissionMessage struct {
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
		body, err := json.Marshal(admissionMessage{"admitted", adm.EventID, adm.UserID, adm.EntryToken, adm.At.UnixMilli()})
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

// Disabled is the announcer for SQS_ENABLED=false: it drops admissions.
type Disabled struct{}

func (Disabled) Announce(line.Admission) {}
