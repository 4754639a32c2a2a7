// Package app builds the ticket service from its configuration and runs it.
package app

import (
	"net"
	"net/mail"
	"net/url"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/rpc"
	"urr.guru/services/ticket/internal/event"
	noticemail "urr.guru/services/ticket/internal/mail"
	"urr.guru/services/ticket/internal/ticket"
)

// Config is what the service reads from its environment.
type Config struct {
	lifecycle.Config
	RPC      rpc.ServerConfig
	Postgres postgres.Config
	Kafka    kafka.Config
	// ReadMaxConns bounds the connections for visitors' reads of events, and of their own
	// reservations and tickets, in addition to those for holds and payments. Lists use up to four.
	ReadMaxConns int `env:"DATABASE_READ_MAX_CONNS, default=8" min:"5" max:"1000"`
	// HoldSeconds is how long a hold lasts, in seconds, for events without a setting of their own.
	HoldSeconds int `env:"HOLD_SECONDS, default=300" min:"5" max:"3600"`
	// HoldMaxExtension is the maximum time by which payments may extend a hold, however often they
	// are declined; each payment may take 10 min.
	HoldMaxExtension time.Duration `env:"HOLD_MAX_EXTENSION, default=30m" min:"10m" max:"24h"`
	// StatementPrefix is the prefix of the account's statement descriptor at Stripe, its "shortened
	// descriptor" (2 to 10 characters): with it, what an event adds (statementSuffix) has at most 22
	// characters. Empty: not known, and an event adds at most 10.
	StatementPrefix string `env:"STRIPE_STATEMENT_PREFIX"`
	// HoldConcurrency is how many connections holds use at once. It is below DATABASE_MAX_CONNS, so
	// that payments get connections too; 0: three quarters of them. Up to 5,000 more requests wait,
	// further ones get OVERLOADED.
	HoldConcurrency int `env:"HOLD_CONCURRENCY, default=0" min:"0" max:"999"`
	// SweepInterval is the time between two sweeps for expired holds.
	SweepInterval time.Duration `env:"SWEEP_INTERVAL, default=1s" min:"100ms" max:"1m"`
	// ListRetention is how long a list of a presale stays readable after another has replaced it: as
	// long as the record of that act, stats' AUDIT_RETENTION.
	ListRetention time.Duration `env:"LIST_RETENTION, default=17520h" min:"24h" max:"876000h"`
	// TicketCodeKey are the Ed25519 seeds that sign ticket codes, required: kid:seed[,kid:seed…],
	// 32 bytes each in base64; the first signs, all verify.
	TicketCodeKey config.Secret `env:"TICKET_CODE_KEY"`
	// Webhooks allows, as development, webhooks by http and at private addresses.
	Webhooks string `env:"WEBHOOKS" oneof:"development"`
	// NoticesAtOnce bounds how many notices one replica sends to one receiver at a time.
	NoticesAtOnce int `env:"NOTICES_AT_ONCE, default=8" min:"1" max:"256"`
	// NoticeTimeout bounds one attempt to send a notice.
	NoticeTimeout time.Duration `env:"NOTICE_TIMEOUT, default=10s" min:"50ms" max:"1m"`
	// NoticeRetryAfter is the time after which a notice that did not arrive is sent again. It doubles
	// with each failure, up to an hour.
	NoticeRetryAfter time.Duration `env:"NOTICE_RETRY_AFTER, default=5s" min:"50ms" max:"1h"`
	// NoticeRetryFor is how long a notice is sent again; then it counts as failed.
	NoticeRetryFor time.Duration `env:"NOTICE_RETRY_FOR, default=72h" min:"1s" max:"480h"`
	// SMTPAddr is the server that sends e-mails, as smtp.example.com:587; empty: none are sent.
	SMTPAddr string `env:"SMTP_ADDR"`
	// SMTPTLS protects the connection: starttls, implicit (as at port 465), or none.
	SMTPTLS string `env:"SMTP_TLS, default=starttls" oneof:"starttls implicit none"`
	// SMTPUser signs in with SMTP_PASSWORD; empty: without.
	SMTPUser string `env:"SMTP_USER"`
	// SMTPPassword is the password of SMTP_USER.
	SMTPPassword config.Secret `env:"SMTP_PASSWORD"`
	// SMTPFrom is the sender of e-mails, as Tickets <tickets@example.com>; required with SMTP_ADDR.
	SMTPFrom string `env:"SMTP_FROM"`
	// PublicURL is the gateway's own address in browsers, to which e-mails link; required with SMTP_ADDR.
	PublicURL string `env:"PUBLIC_URL"`

	keys ticket.Keys
}

// Validate checks the keys of ticket codes and HoldConcurrency, for which it sets the default.
func (c *Config) Validate() error {
	keys, err := ticket.ParseKeys(c.TicketCodeKey)
	if err != nil {
		return config.Invalid("TICKET_CODE_KEY", c.TicketCodeKey, err.Error())
	}
	c.keys = keys
	if c.HoldConcurrency == 0 {
		c.HoldConcurrency = max(1, c.Postgres.MaxConns*3/4)
	}
	if c.HoldConcurrency >= c.Postgres.MaxConns && c.Postgres.MaxConns > 1 {
		return config.Invalid("HOLD_CONCURRENCY", c.HoldConcurrency, "must be below DATABASE_MAX_CONNS")
	}
	if c.StatementPrefix != "" && !event.StatementPrefix(c.StatementPrefix) {
		return config.Invalid("STRIPE_STATEMENT_PREFIX", c.StatementPrefix, "must have 2 to 10 Latin characters with a letter, as the account's at Stripe")
	}
	return c.validateMail()
}

func (c *Config) validateMail() error {
	if c.SMTPAddr == "" {
		return nil
	}
	if host, port, err := net.SplitHostPort(c.SMTPAddr); err != nil || host == "" || port == "" {
		return config.Invalid("SMTP_ADDR", c.SMTPAddr, "must be a host and a port, as smtp.example.com:587")
	}
	if _, err := mail.ParseAddress(c.SMTPFrom); err != nil {
		return config.Invalid("SMTP_FROM", c.SMTPFrom, "must be an address, as Tickets <tickets@example.com>")
	}
	if u, err := url.Parse(c.PublicURL); err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.Path != "" {
		return config.Invalid("PUBLIC_URL", c.PublicURL, "must be the gateway's address in browsers, as https://tickets.example")
	}
	if c.SMTPUser != "" && c.SMTPTLS == "none" {
		return config.Invalid("SMTP_TLS", c.SMTPTLS, "must not be none with SMTP_USER, whose password it would show")
	}
	return nil
}

func (c *Config) holdDuration() time.Duration { return time.Duration(c.HoldSeconds) * time.Second }

func (c *Config) mailSettings() noticemail.Settings {
	return noticemail.Settings{
		Addr: c.SMTPAddr, User: c.SMTPUser, Password: c.SMTPPassword.Reveal(), TLS: c.SMTPTLS, From: c.SMTPFrom, PublicURL: c.PublicURL,
	}
}

// readPoolConfig returns the configuration of the connection pool for visitors' reads.
func (c *Config) readPoolConfig() postgres.Config {
	reads := c.Postgres
	reads.MaxConns = c.ReadMaxConns
	return reads
}
