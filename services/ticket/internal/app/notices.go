package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/loop"
	"urr.guru/services/ticket/internal/mail"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/notices"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/webhook"
)

var noticesSent = promauto.NewCounterVec(prometheus.CounterOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_notices_sent_total",
	Help: "Attempts to send notices, by receiver (the name of a webhook, E-MAIL or E-MAIL-TO-ALL) and result (DELIVERED or FAILED).",
}, []string{"receiver", "result"})

var noticesUndelivered = promauto.NewGaugeVec(prometheus.GaugeOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_notices",
	Help: "Notices that have not arrived, by receiver and state: PENDING, or FAILED after they were tried for too long. Every replica reports the same.",
}, []string{"receiver", "state"})

var noticesOldest = promauto.NewGaugeVec(prometheus.GaugeOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_notices_oldest_seconds",
	Help: "How long the notice of a receiver that waits longest has been tried; of NOT_QUEUED: has waited to be queued. Every replica reports the same.",
}, []string{"receiver"})

// notQueued is the label for notices whose receivers are not looked up yet. Names of webhooks are
// in lower case, so no webhook has this label.
const notQueued = "NOT_QUEUED"

func observeAttempt(receiver string, o notice.Outcome) {
	result := notice.Delivered
	if o.Error != "" {
		result = notice.Failed
	}
	noticesSent.WithLabelValues(receiver, string(result)).Inc()
}

// noticeSenders has the senders of notices.
type noticeSenders struct {
	webhooks *notice.Webhooks
	mails    *mail.Sender // nil: no e-mails are sent
}

func (s *noticeSenders) rekey(cfg *Config) {
	if s.mails != nil {
		s.mails.SetPassword(cfg.SMTPPassword.Reveal())
	}
}

// startNotices starts the workers that send notices. codes signs the codes of tickets in e-mails.
func startNotices(a *lifecycle.App, cfg *Config, database *postgres.Database, codes *ticket.Service, log *slog.Logger) (*noticeSenders, error) {
	store := notices.NewStore(database, cfg.SMTPAddr != "")
	allowPrivate := cfg.Webhooks == "development"
	sender := webhook.NewSender(webhook.Options{Private: allowPrivate})
	a.OnClose("webhooks", sender.Close)
	senders := &noticeSenders{webhooks: notice.NewWebhooks(store, allowPrivate)}
	if cfg.SMTPAddr != "" {
		var err error
		if senders.mails, err = mail.NewSender(cfg.mailSettings(), store, codes); err != nil {
			return nil, err
		}
	}
	lanes := func(ctx context.Context) ([]notice.Lane, error) {
		webhooks, err := store.ListWebhooks(ctx)
		list := make([]notice.Lane, 0, len(webhooks)+1)
		for _, w := range webhooks {
			list = append(list, sender.Lane(w))
		}
		if senders.mails != nil {
			list = append(list, senders.mails.Lanes()...)
		}
		return list, err
	}
	sending := &notice.Lanes{
		Queue: store, List: lanes, Concurrency: cfg.NoticesAtOnce, Every: cfg.SweepInterval, Log: log,
		Timeout: cfg.NoticeTimeout, Lease: cfg.NoticeTimeout + notice.LeaseBeyond,
		Retry: notice.RetryPolicy{After: cfg.NoticeRetryAfter, For: cfg.NoticeRetryFor}, Observe: observeAttempt,
	}
	a.Go("notices", sending.Run)
	a.Go("deliveries of notices", store.Walker(cfg.SweepInterval, log))
	a.Go("old notices", store.Pruner(log))
	a.Go("notices that have not arrived", reportNotices(lanes, store, log))
	return senders, nil
}

// reportNotices returns a worker that updates the metrics of undelivered notices. When it fails,
// the metrics keep their last values.
func reportNotices(lanes func(context.Context) ([]notice.Lane, error), store *notices.Store, log *slog.Logger) func(context.Context) error {
	reported := make(map[string]notices.Counts)
	return func(ctx context.Context) error {
		return loop.Try(ctx, updateInterval, log, "notices not counted", func(ctx context.Context) error {
			unqueuedAge, err := store.OldestToWalk(ctx)
			if err != nil {
				return err
			}
			noticesOldest.WithLabelValues(notQueued).Set(unqueuedAge.Seconds())
			all, err := lanes(ctx)
			if err != nil {
				return err
			}
			counts := make(map[string]notices.Counts, len(all))
			for _, lane := range all {
				if counts[lane.Name], err = store.Count(ctx, lane); err != nil {
					return err
				}
			}
			for name := range reported {
				if _, found := counts[name]; !found {
					noticesUndelivered.DeletePartialMatch(prometheus.Labels{"receiver": name})
					noticesOldest.DeleteLabelValues(name)
				}
			}
			reported = counts
			for name, c := range counts {
				noticesUndelivered.WithLabelValues(name, string(notice.Pending)).Set(float64(c.Pending))
				noticesUndelivered.WithLabelValues(name, string(notice.Failed)).Set(float64(c.Failed))
				noticesOldest.WithLabelValues(name).Set(c.Oldest.Seconds())
			}
			return nil
		})
	}
}
