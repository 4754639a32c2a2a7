package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/services/gateway/internal/api"
	"urr.guru/services/gateway/internal/audit"
	"urr.guru/services/gateway/internal/captcha"
	"urr.guru/services/gateway/internal/dispatch"
	"urr.guru/services/gateway/internal/docs"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/handlers"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/language"
	"urr.guru/services/gateway/internal/limit"
	"urr.guru/services/gateway/internal/linestate"
	"urr.guru/services/gateway/internal/live"
	"urr.guru/services/gateway/internal/oidc"
	"urr.guru/services/gateway/internal/overload"
	"urr.guru/services/gateway/internal/problem"
	"urr.guru/services/gateway/internal/proof"
	"urr.guru/services/gateway/internal/revoked"
	"urr.guru/services/gateway/internal/roomstate"
	"urr.guru/services/gateway/internal/seats"
	"urr.guru/services/gateway/internal/session"
	"urr.guru/services/gateway/internal/web"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// Gateway has all parts between the HTTP listener and the connections to the services.
type Gateway struct {
	Handler http.Handler
	Rooms   *roomstate.Rooms
	Lines   *linestate.Lines
	Revoked *revoked.List
	Audit   *audit.Log // nil: a room, which serves no acts
	Load    *overload.Shedder

	live       *live.Hub
	changes    *seats.Hub
	routes     []*edge.Route
	services   Services
	tokens     *identity.Verifier
	provider   *oidc.Provider    // nil: there is none
	captcha    *captcha.Provider // nil: there is none
	limits     *limit.Limiter
	dispatcher *dispatch.Dispatcher
	closers    []func(context.Context) error
}

// Pages returns the settings of the web pages. Some depend on which services are deployed.
func (c *Config) Pages(s Services) web.Config {
	return web.Config{
		Secure: c.SecureCookies, DevLogin: c.DevLogin, Provider: c.OIDC.Issuer != "", Rewards: s.Reward != nil, Promotions: s.Ingest != nil,
		Pay: c.Pay.page(c.OIDC.PublicURL),
	}
}

// Stores are the Redis clients and the Kafka producer with which the gateway keeps its own state.
type Stores struct {
	Redis  redis.UniversalClient // nil in tests: the gateway keeps the state in its process
	Limits redis.UniversalClient // for the rate limits; nil in tests
	Acts   audit.Publisher       // publishes the records of operators' acts to Kafka; nil: a room
}

// isRoom reports whether the stores are those of a gateway that serves waiting rooms only.
func (s Stores) isRoom() bool { return s.Acts == nil }

// auditLog returns the log of operators' acts; nil for a room, which serves none.
func (s Stores) auditLog(log *slog.Logger, now func() time.Time) *audit.Log {
	if s.isRoom() {
		return nil
	}
	return audit.New(s.Acts, s.Redis, audit.Key, log, now)
}

// revokedSessions returns the list of revoked sessions. A room only reads it.
func (s Stores) revokedSessions(life time.Duration, now func() time.Time) *revoked.List {
	l := revoked.New(s.Redis, revoked.Key, life, now)
	l.ReadOnly = s.isRoom()
	return l
}

// Assemble makes a Gateway from its parts. It is ready once Rooms.Watch has read all room states.
// Without Stores.Acts it is a room: it serves the routes of waiting rooms only, and of cfg it needs
// the RoomConfig.
func Assemble(
	ctx context.Context, cfg *Config, s Services, pages *web.Pages, stores Stores, log *slog.Logger, now func() time.Time,
) (*Gateway, error) {
	keys, err := parseKeys(cfg, stores.isRoom())
	if err != nil {
		return nil, err
	}
	revokedSessions := stores.revokedSessions(cfg.SessionLife, now)
	tokens, err := identity.New(keys, cfg.TokenCache, revokedSessions, now)
	if err != nil {
		return nil, err
	}
	tokens.WithSecureCookies(cfg.SecureCookies)
	proxies, err := limit.ParseProxies(cfg.TrustedProxies)
	if err != nil {
		return nil, err
	}
	cookies := identity.Cookies{Secure: cfg.SecureCookies, Now: now}
	g := &Gateway{
		services: s, Rooms: s.newRooms(), Revoked: revokedSessions, Audit: stores.auditLog(log, now),
		tokens: tokens, provider: cfg.OIDC.Provider(now), captcha: captcha.New(cfg.Captcha),
		limits: limit.New(cfg.Limits.limiterConfig(), stores.Limits, now), Load: overload.New(cfg.PollMaxWait),
	}
	g.live = live.NewHub((&live.Sources{
		Rooms: g.Rooms, Line: queuev1.NewQueueAdminServiceClient(s.Queue), Events: ticketv1.NewEventServiceClient(s.Ticket),
		Stats: statsv1.NewStatsServiceClient(s.Stats), Now: now,
	}).Read)
	g.Lines = linestate.New(now, g.Rooms)
	humanTest := proof.HumanTest{Page: cfg.Captcha.Page, FailOpen: cfg.Captcha.FailOpen}
	if g.captcha != nil {
		humanTest.Provider = g.captcha
	}
	proofs, err := proof.New(tokens, humanTest, stores.Redis, proof.Timeout, now)
	if err != nil {
		return nil, err
	}
	e, err := g.newEndpoints(cfg, pages, cookies, proofs, stores.Redis, log, now)
	if err != nil {
		return nil, err
	}
	table, err := g.newTable(ctx, e)
	if err != nil {
		return nil, err
	}
	e.reference.Describe(table.Routes())
	slots := handlers.NewSlotVerifier(g.Lines, queuev1.NewQueueServiceClient(s.Queue))
	g.closers = append(g.closers, g.limits.Close, slots.Close, g.live.Close)
	g.dispatcher, err = dispatch.New(dispatch.Config{
		Table: table,
		Guard: &edge.Guard{
			Tokens: tokens, Rooms: g.Rooms, Lines: g.Lines, Slots: slots, VerifyMutations: cfg.VerifySlots,
		},
		Tokens: tokens, Cookies: cookies, Limits: g.limits, Proxies: proxies,
		Problems: problem.New(func(r *http.Request) string { return language.Of(r.Header) }, log).WithPage(e.pages.ServeRefusal), Audit: g.Audit,
		OriginSecrets: cfg.CloudFrontSecret, Trusted: cfg.TrustedOrigins, Secure: cfg.SecureCookies, PayHost: cfg.Pay.Host, Pay: pages.Pay, Log: log,
	})
	if err != nil {
		return nil, err
	}
	g.Handler, g.routes = g.dispatcher, table.Routes()
	return g, nil
}

// isRoom reports whether the gateway serves the routes of waiting rooms only.
func (g *Gateway) isRoom() bool { return g.Audit == nil }

// parseKeys returns the keys of a gateway, or of a room.
func parseKeys(cfg *Config, room bool) (identity.Keys, error) {
	var k identity.Keys
	err := cfg.parseRoomKeys(&k)
	if !room {
		err = errors.Join(err, cfg.parseShopKeys(&k))
	}
	return k, err
}

// rekey replaces the keys that sign and verify tokens, and the secrets of the CDN, of the identity
// provider and of the captcha provider.
func (g *Gateway) rekey(cfg *Config) error {
	keys, err := parseKeys(cfg, g.isRoom())
	if err != nil {
		return err
	}
	g.tokens.Rekey(keys)
	g.dispatcher.SetOriginSecrets(cfg.CloudFrontSecret)
	if g.provider != nil {
		g.provider.SetSecret(cfg.OIDC.ClientSecret.Reveal())
	}
	if g.captcha != nil {
		g.captcha.SetSecret(cfg.Captcha.Secret.Reveal())
	}
	return nil
}

func (g *Gateway) newEndpoints(
	cfg *Config, pages *web.Pages, cookies identity.Cookies, proofs *proof.Proofs, rdb redis.UniversalClient, log *slog.Logger,
	now func() time.Time,
) (*endpoints, error) {
	s := g.services
	events := ticketv1.NewEventServiceClient(s.Ticket)
	seatHandlers, err := handlers.NewSeatHandlers(events, ticketv1.NewHoldServiceClient(s.Ticket))
	if err != nil {
		return nil, err
	}
	g.changes = seats.NewHub(seatHandlers.ReadSeats)
	existence, err := handlers.NewEventExistence(events)
	if err != nil {
		return nil, err
	}
	eventHandlers, err := handlers.NewEventHandlers(events, func(e *ticketv1.Event) { handlers.SetWaitingRoom(g.Rooms, e) })
	if err != nil {
		return nil, err
	}
	var vwr vwrv1.VwrServiceClient
	if s.VWR != nil {
		vwr = vwrv1.NewVwrServiceClient(s.VWR)
	}
	auth, err := g.newAuthHandlers(cfg, cookies, rdb, log, now)
	if err != nil {
		return nil, err
	}
	e := &endpoints{
		devLogin: cfg.DevLogin, auth: auth, load: g.Load,
		rooms: handlers.NewRoomHandlers(g.Rooms, g.tokens, cookies, &handlers.VisitorIDs{Tokens: g.tokens, Cookies: cookies, Limits: g.limits}, proofs, vwr),
		line:  handlers.NewLineHandlers(g.Rooms, g.Lines, g.tokens, cookies, queuev1.NewQueueServiceClient(s.Queue)),
		seats: seatHandlers, existence: existence, events: eventHandlers, pages: pages, active: g.Rooms, reference: &docs.Reference{Script: pages.DocsScript, Styles: pages.DocsStyles},
		figures:      handlers.NewFigureHandlers(statsv1.NewStatsServiceClient(s.Stats)),
		live:         &handlers.LiveHandlers{Hub: g.live, Tokens: g.tokens},
		changes:      &handlers.ChangeHandlers{Hub: g.changes, Tokens: g.tokens, Now: now},
		returns:      &handlers.ReturnHandlers{Payments: paymentv1.NewPaymentServiceClient(s.Payment)},
		webhooks:     &handlers.WebhookHandlers{Payments: paymentv1.NewPaymentServiceClient(s.Payment)},
		entitlements: handlers.NewEntitlementHandlers(ticketv1.NewEntitlementAdminServiceClient(s.Ticket)),
		tickets:      &handlers.TicketHandlers{Tickets: ticketv1.NewTicketServiceClient(s.Ticket)},
		checkout: &handlers.CheckoutHandlers{
			Reservations: ticketv1.NewReservationServiceClient(s.Ticket), Payments: paymentv1.NewPaymentServiceClient(s.Payment),
		},
	}
	g.closers = append(g.closers, seatHandlers.Close, eventHandlers.Close, e.rooms.Close, e.line.Close, g.changes.Close)
	return e, g.addOptionalEndpoints(e, vwr, now)
}

// addOptionalEndpoints adds the handlers of those optional services that are deployed. vwr is nil
// if the vwr service is not deployed.
func (g *Gateway) addOptionalEndpoints(e *endpoints, vwr vwrv1.VwrServiceClient, now func() time.Time) (err error) {
	if vwr != nil {
		if e.shuffles, err = handlers.NewShuffleHandlers(vwr); err != nil {
			return err
		}
		g.closers = append(g.closers, e.shuffles.Close)
	}
	if g.services.Reward != nil {
		e.rewards = &handlers.RewardHandlers{Service: rewardv1.NewRewardServiceClient(g.services.Reward)}
	}
	if g.services.Ingest != nil {
		ingest := ingestv1.NewIngestServiceClient(g.services.Ingest)
		if e.promotions, err = handlers.NewPromotionHandlers(ingest, now); err != nil {
			return err
		}
		if e.publicPromotions, err = handlers.NewPublicPromotions(ingest); err != nil {
			return err
		}
		if e.draws, err = handlers.NewDrawHandlers(ingest, ingestv1.NewIngestAdminServiceClient(g.services.Ingest)); err != nil {
			return err
		}
		g.closers = append(g.closers, e.promotions.Close, e.publicPromotions.Close, e.draws.Close)
	}
	return nil
}

func (g *Gateway) newAuthHandlers(
	cfg *Config, cookies identity.Cookies, rdb redis.UniversalClient, log *slog.Logger, now func() time.Time,
) (*session.Handlers, error) {
	c := session.Config{Tokens: g.tokens, Cookies: cookies, Revoked: g.Revoked, Redis: rdb, Log: log, Life: cfg.SessionLife, Now: now}
	if g.provider == nil {
		return session.New(c)
	}
	var err error
	if c.Home, err = url.Parse(cfg.OIDC.PublicURL); err != nil {
		return nil, fmt.Errorf("PUBLIC_URL: %w", err)
	}
	c.Provider = g.provider
	return session.New(c)
}

func (g *Gateway) newTable(ctx context.Context, e *endpoints) (*edge.Table, error) {
	completer := &handlers.Completer{Rooms: g.Rooms, Seats: e.seats, Existence: e.existence, Events: e.events, Promotions: e.publicPromotions}
	passthrough, err := api.New(func(w http.ResponseWriter, r *http.Request, q *edge.Request, err error) {
		g.dispatcher.Fail(w, r, q, err)
	}, completer.Complete)
	if err != nil {
		return nil, err
	}
	passthroughRoutes, err := g.services.registerAll(ctx, passthrough)
	if err != nil {
		return nil, err
	}
	for _, r := range passthroughRoutes {
		switch r.RPC {
		case ticketv1.EventService_GetEvent_FullMethodName:
			r.Handler, r.FastPath, r.Poll = e.events.Get, true, true
		case ingestv1.IngestService_GetPromotion_FullMethodName:
			r.Handler, r.FastPath, r.Poll = e.publicPromotions.Get, true, true
		}
	}
	routes := append(e.routes(), passthroughRoutes...)
	docs.Annotate(routes)
	declareCosts(routes)
	if g.isRoom() {
		routes = slices.DeleteFunc(routes, func(r *edge.Route) bool { return !ofRooms(r) })
	}
	return edge.NewTable(routes...)
}

// Routes returns all routes, in the order of declaration.
func (g *Gateway) Routes() []*edge.Route { return g.routes }

// Ready fails until the states of the waiting rooms are known. Before, none could be enforced.
func (g *Gateway) Ready(context.Context) error {
	if !g.Rooms.Ready() {
		return errors.New("no snapshot of the waiting rooms yet")
	}
	return nil
}

// EndStreams ends the streamed responses, so that the listener can stop.
func (g *Gateway) EndStreams() {
	g.live.End()
	g.changes.End()
}

// Close closes the parts, the last constructed first. Each waits for its calls in flight.
func (g *Gateway) Close(ctx context.Context) error {
	var all []error
	for _, closer := range slices.Backward(g.closers) {
		all = append(all, closer(ctx))
	}
	return errors.Join(all...)
}
