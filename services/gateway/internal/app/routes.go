package app

import (
	"net/http"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"urr.guru/services/gateway/internal/docs"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/handlers"
	"urr.guru/services/gateway/internal/oidc"
	"urr.guru/services/gateway/internal/overload"
	"urr.guru/services/gateway/internal/session"
	"urr.guru/services/gateway/internal/web"

	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// endpoints are the handlers of the hand-written routes.
type endpoints struct {
	devLogin   bool
	auth       *session.Handlers
	rooms      *handlers.RoomHandlers
	shuffles   *handlers.ShuffleHandlers // nil: the vwr service is not deployed
	line       *handlers.LineHandlers
	seats      *handlers.SeatHandlers
	webhooks   *handlers.WebhookHandlers
	tickets    *handlers.TicketHandlers
	checkout   *handlers.CheckoutHandlers
	returns    *handlers.ReturnHandlers
	rewards    *handlers.RewardHandlers    // nil: the reward service is not deployed
	promotions *handlers.PromotionHandlers // nil: the ingest service is not deployed
	// publicPromotions is nil if the ingest service is not deployed.
	publicPromotions *handlers.EventHandlers
	existence        *handlers.EventExistence
	draws            *handlers.DrawHandlers // nil: the ingest service is not deployed
	events           *handlers.EventHandlers
	figures          *handlers.FigureHandlers
	entitlements     *handlers.EntitlementHandlers
	live             *handlers.LiveHandlers
	changes          *handlers.ChangeHandlers
	pages            *web.Pages
	active           handlers.ActiveRooms
	reference        *docs.Reference
	load             *overload.Shedder
}

// routes returns the hand-written routes. The pass-through routes come from the HTTP rules of the
// services and their option urr.common.v1.edge. Package docs has the texts of the API reference.
func (e *endpoints) routes() []*edge.Route {
	return slices.Concat(
		e.authRoutes(), routesIf(e.auth.Provider != nil, e.providerRoutes), routesIf(e.devLogin, e.devRoutes),
		e.roomRoutes(), routesIf(e.shuffles != nil, e.shuffleRoutes), e.queueRoutes(), e.seatRoutes(),
		routesIf(e.rewards != nil, e.rewardRoutes), routesIf(e.promotions != nil, e.promotionRoutes), e.operatorRoutes(),
		e.pageRoutes(), routesIf(e.rewards != nil, e.rewardPages), routesIf(e.promotions != nil, e.promotionPages),
	)
}

// routesIf returns the routes of an optional service if it is deployed, else none.
func routesIf(deployed bool, routes func() []*edge.Route) []*edge.Route {
	if !deployed {
		return nil
	}
	return routes()
}

// fastPoll makes the route of a frequent poll: a GET that skips tracing (edge.Route.FastPath).
func fastPoll(id, pattern string, access edge.Access, handler edge.Handler, answer proto.Message, headers ...edge.Header) *edge.Route {
	return &edge.Route{
		ID: id, Method: http.MethodGet, Pattern: pattern, Access: access, Handler: handler, FastPath: true, Poll: true, Answer: answer, Headers: headers,
	}
}

// waitingPoll makes a fastPoll for visitors who wait. Under overload a share of these polls is
// refused. The pages then ask again by themselves, and no visitor loses a place in the line.
func (e *endpoints) waitingPoll(id, pattern string, access edge.Access, handler edge.Handler, answer proto.Message, headers ...edge.Header) *edge.Route {
	r := fastPoll(id, pattern, access, handler, answer, headers...)
	r.Refusal = e.load.Refusal
	return r
}

// signInTimeout is longer than the time-outs of the three calls to the identity provider together:
// for its metadata, a token and its keys.
const signInTimeout = 16 * time.Second

func (e *endpoints) authRoutes() []*edge.Route {
	return []*edge.Route{
		fastPoll("auth.me", "/api/v1/auth/me", edge.User, e.auth.Me, &gatewayv1.Session{}),
		{
			ID: "auth.logout", Method: http.MethodPost, Pattern: "/api/v1/auth/logout", Access: edge.Public, Handler: e.auth.Logout,
			Body: edge.JSONBody(&gatewayv1.Nothing{}), Status: http.StatusNoContent, Answer: &gatewayv1.SignedOut{},
		},
		{
			ID: "sessions.revoke", Method: http.MethodPost, Pattern: "/api/v1/admin/sessions/revoke", Access: edge.Admin, Handler: e.auth.Revoke,
			Body: edge.RequiredBody(&gatewayv1.RevokeSessionsRequest{}), Status: http.StatusNoContent, ServedWithoutKafka: true,
		},
	}
}

// providerRoutes are the routes by which users sign in at the identity provider.
func (e *endpoints) providerRoutes() []*edge.Route {
	return []*edge.Route{
		{
			ID: "auth.login", Method: http.MethodGet, Pattern: session.LoginPath, Access: edge.Public, Handler: e.auth.Login, Status: http.StatusFound,
			Costly: true, Timeout: signInTimeout,
		},
		{
			ID: "auth.callback", Method: http.MethodGet, Pattern: oidc.CallbackPath, Access: edge.Public, Handler: e.auth.Callback, Status: http.StatusFound,
			SignsIn: true, Timeout: signInTimeout,
		},
	}
}

func (e *endpoints) devRoutes() []*edge.Route {
	return []*edge.Route{{
		ID: "auth.dev-login", Method: http.MethodPost, Pattern: "/api/v1/auth/dev-login", Access: edge.Public, Handler: e.auth.DevLogin,
		Body: edge.RequiredBody(&gatewayv1.DevLoginRequest{}), Answer: &gatewayv1.Session{},
	}}
}

// roomRoutes are the routes of tier 1. They stay open while a waiting room is active.
func (e *endpoints) roomRoutes() []*edge.Route {
	return []*edge.Route{
		{
			ID: "vwr.assign", Method: http.MethodPost, Pattern: "/vwr-api/vwr/assign/{event_id}", Access: edge.Visitor, Handler: e.rooms.AssignPosition,
			IssuesVisitorID: true, RefusalFromMemory: e.rooms.RefuseEarly, Timeout: 12 * time.Second, Body: edge.JSONBody(&gatewayv1.AssignBody{}),
			Answer:  &vwrv1.Assigned{},
			Headers: []edge.Header{edge.VWRProof, edge.VWRCaptcha},
		},
		{
			ID: "vwr.challenge", Method: http.MethodGet, Pattern: "/vwr-api/vwr/challenge/{event_id}", Access: edge.Visitor, Handler: e.rooms.Challenge,
			IssuesVisitorID: true, RefusalFromMemory: e.rooms.RefuseEarly, Answer: &gatewayv1.Challenge{},
		},
		e.waitingPoll("vwr.check", "/vwr-api/vwr/check/{event_id}/{request_id}", edge.Visitor, e.rooms.CheckPosition, &vwrv1.Checked{}, edge.VWRTicket),
		e.waitingPoll("vwr.status", "/vwr-api/vwr/status/{event_id}", edge.Public, e.rooms.Status, &gatewayv1.WaitingRoomStatus{}),
		e.waitingPoll("vwr.serving", "/vwr-api/vwr/serving/{event_id}", edge.Public, e.rooms.ServingCounter, &gatewayv1.ServingCounter{}),
		{
			ID: "vwr.lobby", Method: http.MethodPost, Pattern: "/vwr-api/vwr/lobby/{event_id}", Access: edge.User, Handler: e.rooms.JoinLobby,
			IssuesVisitorID: true, Timeout: 12 * time.Second, Body: edge.JSONBody(&gatewayv1.Nothing{}), Answer: &vwrv1.Joined{},
		},
	}
}

// shuffleRoutes returns the routes that publish how the users of a lobby were shuffled: of an
// event's latest lobby, or of the lobby of a given round.
func (e *endpoints) shuffleRoutes() (routes []*edge.Route) {
	for _, shuffle := range []struct{ id, pattern string }{
		{"vwr.shuffle", "/vwr-api/vwr/shuffle/{event_id}"},
		{"vwr.shuffle.round", "/vwr-api/vwr/shuffle/{event_id}/rounds/{round}"},
	} {
		row := func(id, pattern string, handler edge.Handler, answer proto.Message) *edge.Route {
			return &edge.Route{
				ID: shuffle.id + id, Method: http.MethodGet, Pattern: shuffle.pattern + pattern, Access: edge.Public, Handler: handler, Poll: true,
				Timeout: handlers.DrawTimeout, Answer: answer,
			}
		}
		routes = append(routes,
			row("", "", e.shuffles.Document, nil),
			row(".entries", "/entries", e.shuffles.Entries, nil),
			row(".proof", "/proof/{request_id}", e.shuffles.Proof, &vwrv1.ShuffleProof{}),
		)
	}
	return routes
}

// queueRoutes are the routes of tier 2. The queue service checks the tier-1 position of newcomers.
func (e *endpoints) queueRoutes() []*edge.Route {
	headers := []edge.Header{edge.QueueTicket, edge.EntryToken}
	return []*edge.Route{
		{
			ID: "queue.check", Method: http.MethodPost, Pattern: "/api/v1/queue/check/{event_id}", Access: edge.User, Handler: e.line.Check,
			Body: edge.JSONBody(&gatewayv1.Nothing{}), Headers: headers, Answer: &queuev1.Place{},
		},
		e.waitingPoll("queue.status", "/api/v1/queue/status/{event_id}", edge.User, e.line.Status, &queuev1.Place{}, headers...),
		{
			ID: "queue.heartbeat", Method: http.MethodPost, Pattern: "/api/v1/queue/heartbeat/{event_id}", Access: edge.User, Handler: e.line.Heartbeat,
			Poll: true, Body: edge.JSONBody(&gatewayv1.Nothing{}), Headers: headers, Answer: &gatewayv1.Beat{},
		},
		{
			ID: "queue.leave", Method: http.MethodPost, Pattern: "/api/v1/queue/leave/{event_id}", Access: edge.User, Handler: e.line.Leave,
			Body: edge.JSONBody(&gatewayv1.Nothing{}), Headers: headers, Status: http.StatusNoContent,
		},
	}
}

func (e *endpoints) seatRoutes() []*edge.Route {
	return []*edge.Route{
		{
			ID: "seats.layout", Method: http.MethodGet, Pattern: "/api/v1/seats/{event_id}", Access: edge.Entry, Event: edge.FromPath, Handler: e.seats.Layout,
			Poll: true, Answer: &ticketv1.SeatMap{},
		},
		{
			ID: "seats.availability", Method: http.MethodGet, Pattern: "/api/v1/seats/{event_id}/availability", Access: edge.Entry, Event: edge.FromPath,
			Handler: e.seats.Availability, FastPath: true, Traced: true, Poll: true, Answer: &ticketv1.Availability{},
		},
		{
			ID: "seats.changes", Method: http.MethodGet, Pattern: "/api/v1/seats/{event_id}/changes", Access: edge.Entry, Event: edge.FromPath,
			Handler: e.changes.StreamChanges, Stream: true, Poll: true, Answer: &gatewayv1.SeatChanges{}, Headers: []edge.Header{edge.LastEventID},
		},
		{
			ID: "seats.reserve", Method: http.MethodPost, Pattern: "/api/v1/seats/reserve", Access: edge.Entry, Event: edge.FromBody, Handler: e.seats.Reserve, Refusal: e.seats.Refusal,
			Body: edge.RequiredBody(&ticketv1.HoldSeatsItem{}), Headers: []edge.Header{edge.IdempotencyKey}, Status: http.StatusCreated,
			Answer: &ticketv1.Reservation{},
		},
		{
			ID: "reservations.best", Method: http.MethodPost, Pattern: "/api/v1/reservations", Access: edge.Entry, Event: edge.FromBody, Handler: e.seats.ReserveBest, Refusal: e.seats.Refusal,
			Body: edge.RequiredBody(&ticketv1.HoldBestItem{}), Headers: []edge.Header{edge.IdempotencyKey}, Status: http.StatusCreated,
			Answer: &ticketv1.Reservation{},
		},
		{
			ID: "tickets.qr", Method: http.MethodGet, Pattern: "/api/v1/my/tickets/{ticket_id}/qr.svg", Access: edge.User, Handler: e.tickets.QR,
		},
		{
			ID: "admin.qr", Method: http.MethodGet, Pattern: "/api/v1/admin/tickets/{ticket_id}/qr.svg", Access: edge.Admin, Handler: e.tickets.QR,
			Personal: new(true),
		},
		{
			ID: "my.checkout", Method: http.MethodGet, Pattern: "/api/v1/my/reservations/{reservation_id}/payments/{payment_id}", Access: edge.User,
			Handler: e.checkout.Get, Poll: true, Answer: &gatewayv1.Checkout{},
		},
		{
			ID: "payments.webhook", Method: http.MethodPost, Pattern: "/api/v1/payments/webhooks/{provider}", Access: edge.Public, Handler: e.webhooks.Handle,
			Body: edge.Body{Raw: true},
		},
		{
			ID: "payments.return", Method: http.MethodGet, Pattern: "/api/v1/payments/return/{provider}", Access: edge.Public, Handler: e.returns.Handle,
			Costly: true, Status: http.StatusSeeOther,
		},
	}
}

// rewardRoutes are the routes by which members attend campaigns and take part in prize draws.
func (e *endpoints) rewardRoutes() []*edge.Route {
	return []*edge.Route{
		{
			ID: "rewards.attend", Method: http.MethodPost, Pattern: "/api/v1/rewards/{event_id}/attendance", Access: edge.User, Event: edge.FromPath,
			Handler: e.rewards.Attend, Body: edge.JSONBody(&gatewayv1.Nothing{}), Headers: []edge.Header{edge.IdempotencyKey}, Status: http.StatusCreated,
			RepeatsAnswer: true, Answer: &rewardv1.Earned{},
		},
		{
			ID: "rewards.draw", Method: http.MethodPost, Pattern: "/api/v1/rewards/{event_id}/draw", Access: edge.User, Event: edge.FromPath,
			Handler: e.rewards.Draw, Body: edge.JSONBody(&gatewayv1.Nothing{}), Headers: []edge.Header{edge.DrawKey}, Status: http.StatusCreated, RepeatsAnswer: true,
			Answer: &rewardv1.Earned{},
		},
	}
}

// promotionRoutes returns the routes that take applications and serve the documents of lottery draws,
// which are too large for one gRPC message.
func (e *endpoints) promotionRoutes() []*edge.Route {
	return []*edge.Route{
		{
			ID: "draws.document", Method: http.MethodGet, Pattern: "/api/v1/draws/{event_id}", Access: edge.Public, Handler: e.draws.Document,
			Poll: true, Timeout: handlers.DrawTimeout, Answer: &ingestv1.Draw{},
		},
		{
			ID: "draws.entries", Method: http.MethodGet, Pattern: "/api/v1/draws/{event_id}/entries", Access: edge.Public, Handler: e.draws.Entries,
			Poll: true, Timeout: handlers.DrawTimeout,
		},
		{
			ID: "draws.chunk", Method: http.MethodGet, Pattern: "/api/v1/draws/{event_id}/entries/{chunk}", Access: edge.Public, Handler: e.draws.Chunk,
			Poll: true, Timeout: handlers.DrawTimeout,
		},
		{
			ID: "promotions.winners", Method: http.MethodGet, Pattern: "/api/v1/admin/promotions/{event_id}/winners.csv", Access: edge.Admin,
			Handler: e.draws.Winners, Poll: true, Personal: new(true), Timeout: handlers.ExportTimeout,
		},
		{
			ID: "promotions.apply", Method: http.MethodPost, Pattern: "/api/v1/promotions/{event_id}/requests", Access: edge.User, Event: edge.FromPath,
			Handler: e.promotions.Apply, RefusalFromMemory: e.promotions.RefusalFromMemory, Timeout: 12 * time.Second, Body: edge.JSONBody(&gatewayv1.Nothing{}), Headers: []edge.Header{edge.IdempotencyKey},
			Status: http.StatusAccepted, Answer: &ingestv1.Applied{},
		},
	}
}

// operatorRoutes returns the routes for operators: a stream of an event's live figures, the upload
// of lists of users and the export of their versions, and the export of figures.
func (e *endpoints) operatorRoutes() []*edge.Route {
	csv := func(id, pattern string, access edge.Access, handler edge.Handler, timeout time.Duration) *edge.Route {
		return &edge.Route{
			ID: id, Method: http.MethodGet, Pattern: pattern, Access: access, Handler: handler, Poll: true, Timeout: timeout,
			Costly:   access == edge.Public, // anybody may ask for any period
			Personal: new(false),
		}
	}
	return []*edge.Route{
		{
			ID: "admin.live", Method: http.MethodGet, Pattern: "/api/v1/admin/live/{event_id}", Access: edge.Admin, Handler: e.live.StreamFigures,
			Stream: true, Poll: true, Personal: new(false), Answer: &gatewayv1.LiveFigures{},
		},
		{
			ID: "entitlements.put", Method: http.MethodPut, Pattern: "/api/v1/admin/events/{event_id}/entitlements/{list}", Access: edge.Admin,
			Handler: e.entitlements.PutList, Body: edge.Body{Stream: true}, Timeout: handlers.UploadTimeout, Answer: &ticketv1.EntitlementList{},
		},
		{
			ID: "entitlements.version", Method: http.MethodGet, Pattern: "/api/v1/admin/events/{event_id}/entitlements/{list}/versions/{version_id}/users.csv",
			Access: edge.Admin, Handler: e.entitlements.GetVersion, Poll: true, Personal: new(true), Timeout: handlers.ExportTimeout,
		},
		csv("stats.series", "/api/v1/stats/events/{event_id}/series.csv", edge.Public, e.figures.Series, 0),
		csv("admin.series", "/api/v1/admin/stats/events/{event_id}/series.csv", edge.Admin, e.figures.OperatorSeries, 0),
		csv("admin.days", "/api/v1/admin/stats/days.csv", edge.Admin, e.figures.Days, handlers.ExportTimeout),
	}
}

func pageRoute(id, pattern string, access edge.Access, event edge.EventSource, handler edge.Handler) *edge.Route {
	return &edge.Route{
		ID: id, Method: http.MethodGet, Pattern: pattern, Access: access, Event: event, Handler: handler, Page: true, Poll: true,
		Personal: new(false), // the API has the data
	}
}

func (e *endpoints) page(name string) edge.Handler { return handlers.FromHTTP(e.pages.Page(name)) }

// pageRoutes returns the routes of the web pages. /vwr/ and /queue/ are open to everybody, since
// visitors who may not see another page yet are redirected there.
func (e *endpoints) pageRoutes() []*edge.Route {
	return []*edge.Route{
		pageRoute("page.events", "/", edge.Public, edge.None, e.page("events")),
		pageRoute("page.event", "/events/{event_id}", edge.Public, edge.FromPath, handlers.EventPage(e.pages, e.existence, e.active)),
		pageRoute("page.seats", "/events/{event_id}/seats", edge.Entry, edge.FromPath, e.page("seats")),
		pageRoute("page.book", "/events/{event_id}/book", edge.Entry, edge.FromPath, e.page("book")),
		pageRoute("page.room", "/vwr/{event_id}", edge.Public, edge.None, handlers.FromHTTP(e.pages.WaitingRoom)),
		pageRoute("page.queue", "/queue/{event_id}", edge.Public, edge.None, e.page("queue")),
		pageRoute("page.checkout", "/checkout/{reservation_id}", edge.Public, edge.None, e.page("checkout")),
		pageRoute("page.transfers", "/transfers", edge.Public, edge.None, e.page("transfers")),
		pageRoute("page.transfer", "/transfers/{transfer_id}", edge.Public, edge.None, e.page("transfers")),
		pageRoute("page.memberships", "/memberships", edge.Public, edge.None, e.page("memberships")),
		pageRoute("page.membership", "/memberships/{membership_id}", edge.Public, edge.None, e.page("memberships")),
		pageRoute("page.check-in", "/check-in", edge.Staff, edge.None, e.page("check-in")),
		pageRoute("page.orders", "/admin/orders", edge.Admin, edge.None, e.page("orders")),
		pageRoute("page.admin-order", "/admin/orders/{reservation_id}", edge.Admin, edge.None, e.page("orders")),
		pageRoute("page.order", "/orders/{payment_id}", edge.Public, edge.None, e.page("order")),
		pageRoute("page.my", "/my", edge.Public, edge.None, e.page("my")),
		pageRoute("page.login", "/login", edge.Public, edge.None, e.page("login")),
		pageRoute("page.docs", "/docs", edge.Public, edge.None, e.reference.Page),
		pageRoute("page.openapi", "/docs/openapi.json", edge.Public, edge.None, e.reference.Document),
		pageRoute("page.robots", "/robots.txt", edge.Public, edge.None, handlers.FromHTTP(e.pages.Robots)),
		pageRoute("page.asset", "/assets/{file}", edge.Public, edge.None, handlers.FromHTTP(e.pages.Assets)),
		pageRoute("page.health", "/health", edge.Public, edge.None, handlers.Health),
	}
}

func (e *endpoints) rewardPages() []*edge.Route {
	return []*edge.Route{pageRoute("page.campaign", "/rewards/{event_id}", edge.Public, edge.None, e.page("campaign"))}
}

func (e *endpoints) promotionPages() []*edge.Route {
	return []*edge.Route{
		pageRoute("page.promotion", "/promo/{event_id}", edge.Public, edge.None, e.page("promo")),
		pageRoute("page.draw", "/draws/{event_id}", edge.Public, edge.None, e.page("draw")),
	}
}
