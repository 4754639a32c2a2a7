// Package sqs tells others of claimed slots by the FIFO queue `admissions`: besides, never in the way.
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
	// perSend is SQS's limit for one batch.
	perSend = 10
	// backlog is how many admissions may wait to be sent; those beyond are dropped.
	backlog = 10_000
	// sendTimeout bounds one batch.
	sendTimeout = 2 * time.Second
)

var _ line.Announcer = (*Announcer)(nil)

// Sender is the part of SQS that is used.
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

// New makes one for a queue; Run sends.
func New(client Sender, url string, log *slog.Logger) *Announcer {
	return &Announcer{client: client, url: url, log: log, queue: make(chan line.Admission, backlog)}
}

// Announce implements line.Announcer: it never waits. What finds no room is dropped and counted; the line is right without it.
func (a *Announcer) Announce(adm line.Admission) {
	select {
	case a.queue <- adm:
	default:
		announced.WithLabelValues("dropped").Inc()
	}
}

// Run sends until ctx ends, then what has arrived, as far as that goes within the time of one batch.
func (a *Announcer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
			defer cancel()
			for batch := a.take(nil); len(batch) > 0 && last.Err() == nil; batch = a.take(nil) {
				a.send(last, batch)
			}
			return nil
		case first := <-a.queue:
			a.send(context.WithoutCancel(ctx), a.take([]line.Admission{first})) // bounded by its own time
		}
	}
}

// take fills a batch with what has arrived.
func (a *Announcer) take(batch []line.Admission) []line.Admission {
	for len(batch) < perSend {
		select {
		case adm := <-a.queue:
			batch = append(batch, adm)
		default:
			return batch
		}
	}
	return batch
}

// message is the body, a contract with whoever reads the queue.
type message struct {
	Action     string `json:"action"`
	EventID    string `json:"eventId"`
	UserID     string `json:"userId"`
	EntryToken string `json:"entryToken"`
	Timestamp  int64  `json:"timestamp"` // epoch ms
}

func (a *Announcer) send(ctx context.Context, batch []line.Admission) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	entries := make([]types.SendMessageBatchRequestEntry, len(batch))
	for i, adm := range batch {
		body, err := json.Marshal(message{"admitted", adm.EventID, adm.UserID, adm.EntryToken, adm.At.UnixMilli()})
		if err != nil {
			a.failed(ctx, len(batch), err)
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
		a.failed(ctx, len(batch), err)
		return
	}
	announced.WithLabelValues("sent").Add(float64(len(out.Successful)))
	if len(out.Failed) > 0 {
		a.failed(ctx, len(out.Failed), fmt.Errorf("%s: %s", aws.ToString(out.Failed[0].Code), aws.ToString(out.Failed[0].Message)))
	}
}

func (a *Announcer) failed(ctx context.Context, n int, err error) {
	announced.WithLabelValues("failed").Add(float64(n))
	a.log.WarnContext(ctx, "admissions not announced", "count", n, "error", err)
}

// Nobody announces nothing; for SQS_ENABLED=false.
type Nobody struct{}

// Announce implements line.Announcer.
func (Nobody) Announce(line.Admission) {}
