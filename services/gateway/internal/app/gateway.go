package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/api"
	"urr.guru/services/gateway/internal/docs"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/front"
	"urr.guru/services/gateway/internal/hot"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/limit"
	"urr.guru/services/gateway/internal/lines"
	"urr.guru/services/gateway/internal/problem"
	"urr.guru/services/gateway/internal/revoked"
	"urr.guru/services/gateway/internal/session"
	"urr.guru/services/gateway/internal/vwrstate"
	"urr.guru/services/gateway/internal/web"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// Gateway is everything between the listener and the services.
type Gateway struct {
	Handler http.Handler
	Rooms   *vwrstate.Rooms
	Lines   *lines.Lines
	Revoked *revoked.List

	routes   []*edge.Route
	services Services
	tokens   *identity.Verifier
	front    *front.Front
	closers  []func(context.Context) error
}

// Assemble makes a Gateway. Its state is filled by Watch; until then no waiting room is known, and readiness is false.
func Assemble(ctx context.Context, cfg *Config, s Services, rdb redis.UniversalClient, log *slog.Logger, now func() time.Time) (*Gateway, error) {
	keys, err := cfg.keys()
	if err != nil {
		return nil, err
	}
	list := revoked.New(rdb, revoked.Key, cfg.SessionLife, now)
	tokens, err := identity.New(keys, cfg.TokenCache, list, now)
	if err != nil {
		return nil, err
	}
	proxies, err := limit.ParseProxies(cfg.TrustedProxies)
	if err != nil {
		return nil, err
	}
	routes, err := s.routes(cfg.DevLogin)
	if err != nil {
		return nil, err
	}
	table, err := edge.NewTable(routes...)
	if err != nil {
		return nil, err
	}
	g := &Gateway{routes: table.Routes(), services: s, Rooms: s.rooms(), Revoked: list, tokens: tokens}
	g.Lines = lines.New(now, g.Rooms)
	cookies := identity.Cookies{Secure: cfg.SecureCookies, Now: now}
	h, err := g.handlers(ctx, parts{cfg, tokens, cookies, table, log, now})
	if err != nil {
		return nil, err
	}
	limits := limit.New(cfg.Limits.limits(), rdb, now)
	slots := hot.NewSlots(g.Lines, queuev1.NewQueueServiceClient(s.Queue))
	g.closers = append(g.closers, limits.Close, slots.Close)
	f, err := front.New(front.Config{
		Table: table,
		Guard: &edge.Guard{
			Tokens: tokens, Rooms: g.Rooms, Lines: g.Lines, Slots: slots, VerifyMutations: cfg.VerifySlots,
		},
		Tokens: tokens, Cookies: cookies, Limits: limits, Proxies: proxies,
		Problems: problem.New(web.Language, log).WithPage(h.refuse), Handlers: h.own, Pass: h.pass,
		OriginSecrets: cfg.CloudFrontSecret, Trusted: cfg.TrustedOrigins, Secure: cfg.SecureCookies, Log: log,
	})
	if err != nil {
		return nil, err
	}
	h.fail = f.Fail
	g.Handler, g.front = f, f
	return g, nil
}

// rekey signs and verifies by the secrets of another configuration from now on.
func (g *Gateway) rekey(cfg *Config) error {
	keys, err := cfg.keys()
	if err != nil {
		return err
	}
	g.tokens.Rekey(keys)
	g.front.SetOriginSecrets(cfg.CloudFrontSecret)
	return nil
}

// handlers are those of the hand-written routes, by id, and the one of all others.
type handlers struct {
	own  map[string]edge.Handler
	pass edge.Handler
	fail api.ErrorWriter // the front's, once there is one
	// refuse shows a refusal to a person.
	refuse problem.Page
}

// parts are what handlers are made of besides the services.
type parts struct {
	cfg     *Config
	tokens  *identity.Verifier
	cookies identity.Cookies
	table   *edge.Table
	log     *slog.Logger
	now     func() time.Time
}

func (g *Gateway) handlers(ctx context.Context, p parts) (*handlers, error) {
	s, cfg, tokens, cookies := g.services, p.cfg, p.tokens, p.cookies
	var vwr vwrv1.VwrServiceClient
	if s.VWR != nil {
		vwr = vwrv1.NewVwrServiceClient(s.VWR)
	}
	queue := queuev1.NewQueueServiceClient(s.Queue)
	seats, err := hot.NewSeats(ticketv1.NewEventServiceClient(s.Ticket), ticketv1.NewHoldServiceClient(s.Ticket))
	if err != nil {
		return nil, err
	}
	existence, err := hot.NewExistence(ticketv1.NewEventServiceClient(s.Ticket))
	if err != nil {
		return nil, err
	}
	rooms := hot.NewRooms(g.Rooms, tokens, cookies, vwr)
	line := hot.NewLine(g.Rooms, g.Lines, tokens, cookies, queue)
	auth := &session.Handlers{Tokens: tokens, Cookies: cookies, Revoked: g.Revoked, Log: p.log, Life: cfg.SessionLife, Now: p.now}
	webhooks := &hot.Webhooks{Payments: paymentv1.NewPaymentServiceClient(s.Payment)}
	g.closers = append(g.closers, seats.Close, rooms.Close, line.Close)

	h := &handlers{own: map[string]edge.Handler{
		"auth.me": auth.Me, "auth.logout": auth.Logout, "sessions.revoke": auth.Revoke,
		"vwr.assign": rooms.Assign, "vwr.check": rooms.Check, "vwr.status": rooms.Status, "vwr.serving": rooms.Serving,
		"queue.check": line.Check, "queue.status": line.Status, "queue.heartbeat": line.Heartbeat, "queue.leave": line.Leave,
		"seats.layout": seats.Layout, "seats.availability": seats.Availability,
		"seats.reserve": seats.Reserve, "reservations.best": seats.Best,
		"payments.webhook": webhooks.Handle,
	}}
	if cfg.DevLogin {
		h.own["auth.dev-login"] = auth.DevLogin
	}
	pages, err := addPages(h.own, cfg, p.table, existence)
	if err != nil {
		return nil, err
	}
	h.refuse = pages.Refuse
	answers := &answered{rooms: g.Rooms, seats: seats, existence: existence}
	pass := api.New(func(w http.ResponseWriter, r *http.Request, q *edge.Request, err error) { h.fail(w, r, q, err) }, answers.fill)
	h.pass = pass.Handle
	for _, svc := range s.passthroughs() {
		if err := svc.register(ctx, pass.Mux); err != nil {
			return nil, fmt.Errorf("register %s: %w", svc.descriptor.FullName(), err)
		}
	}
	return h, nil
}

// addPages adds the pages and the documentation.
func addPages(own map[string]edge.Handler, cfg *Config, table *edge.Table, existence *hot.Existence) (*web.Pages, error) {
	pages, err := web.New(web.Config{Secure: cfg.SecureCookies, DevLogin: cfg.DevLogin})
	if err != nil {
		return nil, err
	}
	reference, err := docs.New(table.Routes())
	if err != nil {
		return nil, err
	}
	for id, h := range map[string]http.Handler{
		"page.events": pages.Events(), "page.seats": pages.Seats(), "page.book": pages.Book(),
		"page.room": pages.WaitingRoom(), "page.queue": pages.Queue(), "page.checkout": pages.Checkout(), "page.my": pages.Tickets(),
		"page.login": pages.Login(), "page.asset": pages.Assets(), "page.robots": pages.Robots(),
		"page.docs": http.HandlerFunc(reference.Page), "page.openapi": http.HandlerFunc(reference.Document),
		"page.health": http.HandlerFunc(health),
	} {
		own[id] = func(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
			h.ServeHTTP(w, atPath(r, q.Path))
			return nil
		}
	}
	own["page.event"] = eventPage(pages, existence)
	return pages, nil
}

// eventPage is an event's page, or for people the one that says that there is no such event.
func eventPage(pages *web.Pages, existence *hot.Existence) edge.Handler {
	return func(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
		switch {
		case !existence.Absent(r.Context(), q.Event):
			pages.Event().ServeHTTP(w, r)
		case pages.NoEvent(w, r):
			q.Refused = errs.ErrEventNotFound
		default:
			return errs.ErrEventNotFound
		}
		return nil
	}
}

// atPath gives a page's handler the normalised path.
func atPath(r *http.Request, path string) *http.Request {
	if r.URL.Path == path && r.URL.RawPath == "" {
		return r
	}
	clone := r.Clone(r.Context())
	clone.URL.Path, clone.URL.RawPath = path, ""
	return clone
}

// health says that the process answers; whether it should get traffic is /readyz on the ops port.
func health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(`{"status":"ok"}` + "\n"))
}

// Routes are all that the gateway serves, in the order of their declaration.
func (g *Gateway) Routes() []*edge.Route { return g.routes }

// Ready fails until the state of the waiting rooms is known: before that, no room would be guarded.
func (g *Gateway) Ready(context.Context) error {
	if !g.Rooms.Ready() {
		return errors.New("no snapshot of the waiting rooms yet")
	}
	return nil
}

// Close waits for the calls under way, in the reverse order of their making.
func (g *Gateway) Close(ctx context.Context) error {
	var all []error
	for i := len(g.closers) - 1; i >= 0; i-- {
		all = append(all, g.closers[i](ctx))
	}
	return errors.Join(all...)
}
