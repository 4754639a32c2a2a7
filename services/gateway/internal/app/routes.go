package app

import (
	"net/http"
	"slices"
	"time"

	"urr.guru/services/gateway/internal/docs"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/handlers"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/oidc"
	"urr.guru/services/gateway/internal/session"
	"urr.guru/services/gateway/internal/web"

	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
)

// endpoints has the handlers of the hand-written routes.
type endpoints struct {
	devLogin   bool
	auth       *session.Handlers
	rooms      *handlers.Rooms
	shuffles   *handlers.Shuffles // nil: there is no tier 1
	line       *handlers.Line
	seats      *handlers.Seats
	webhooks   *handlers.Webhooks
	rewards    *handlers.Rewards    // nil: there are none
	promotions *handlers.Promotions // nil: there are none
	existence  *handlers.EventExistence
	draws      *handlers.Draws // nil: there are none
	events     *handlers.Events
	live       *handlers.Live
	pages      *web.Pages
	reference  *docs.Reference
}

// routes returns the hand-written routes: frequent polls and batched calls, sign-in, the seat
// bitmap, webhooks, pages. All others come from the HTTP rules of the services, completed by
// passThroughDetails.
func (e *endpoints) routes() []*edge.Route {
	return slices.Concat(e.authRoutes(), e.roomRoutes(), e.lobbyRoutes(), e.queueRoutes(), e.seatRoutes(), e.rewardRoutes(), e.promotionRoutes(), e.operatorRoutes(), e.pageRoutes())
}

// signInTimeout exceeds the time-outs of the calls to the identity provider: its metadata, its token
// endpoint and its keys.
const signInTimeout = 16 * time.Second

func (e *endpoints) authRoutes() []*edge.Route {
	routes := []*edge.Route{
		{
			ID: "auth.me", Method: http.MethodGet, Pattern: "/api/v1/auth/me", Who: edge.User, Handler: e.auth.Me,
			FastPath: true, Poll: true, Answer: &gatewayv1.Session{}, Summary: "Who is signed in, and until when",
		},
		{
			ID: "auth.logout", Method: http.MethodPost, Pattern: "/api/v1/auth/logout", Who: edge.Public, Handler: e.auth.Logout,
			Body: edge.JSONBody(&gatewayv1.Nothing{}), Status: http.StatusNoContent, Answer: &gatewayv1.SignedOut{}, Summary: "Ends the session of this browser",
			Description: "A session that began at the identity provider is answered with 200 and `{\"redirectTo\": …}`, where the browser ends the provider's session. " +
				"A browser whose session has ended is answered in the same way, and may ask again.",
		},
		{
			ID: "sessions.revoke", Method: http.MethodPost, Pattern: "/api/v1/admin/sessions/revoke", Who: edge.Admin, Handler: e.auth.Revoke,
			Body: edge.JSONBody(&gatewayv1.RevokeSessionsRequest{}), Status: http.StatusNoContent,
			Stops: true, Summary: "Ends one session, or all of a user's, at all gateways",
		},
	}
	if e.auth.Provider != nil {
		routes = append(routes, &edge.Route{
			ID: "auth.login", Method: http.MethodGet, Pattern: session.LoginPath, Who: edge.Public, Handler: e.auth.Login, Status: http.StatusFound,
			Costly: true, Timeout: signInTimeout, Summary: "Leads to the sign-in page of the identity provider",
			Description: "`?returnTo=` is the path of this site where the browser goes on afterwards. When the provider does not answer, it leads to `/login`, which says so. At another host name than the gateway's own it leads there first.",
		}, &edge.Route{
			ID: "auth.callback", Method: http.MethodGet, Pattern: oidc.CallbackPath, Who: edge.Public, Handler: e.auth.Callback, Status: http.StatusFound,
			Costly: true, Timeout: signInTimeout, Summary: "Where the identity provider sends the browser back to",
			Description: "Begins a session and leads to `returnTo`. It takes part only in an attempt that this browser began (cookie `urr-sign-in-…`), once and within 15 minutes; every failure leads to `/login`, which says what happened.",
		})
	}
	if e.devLogin { // else the route does not exist
		routes = append(routes, &edge.Route{
			ID: "auth.dev-login", Method: http.MethodPost, Pattern: "/api/v1/auth/dev-login", Who: edge.Public, Handler: e.auth.DevLogin,
			Body: edge.JSONBody(&gatewayv1.DevLoginRequest{}), Answer: &gatewayv1.Session{}, Summary: "Signs in as anybody (development only)",
		})
	}
	return routes
}

// roomRoutes are the routes of tier 1. They stay open while a waiting room is active, since they
// lead through it.
func (e *endpoints) roomRoutes() []*edge.Route {
	return []*edge.Route{
		{
			ID: "vwr.assign", Method: http.MethodPost, Pattern: "/vwr-api/vwr/assign/{event_id}", Who: edge.Visitor, Handler: e.rooms.Assign,
			Issues: true, Timeout: 12 * time.Second, Body: edge.JSONBody(&gatewayv1.AssignBody{}), Answer: &vwrv1.Assigned{},
			Headers: []edge.Header{vwrProof}, Summary: "Gives the visitor a position, the same again when repeated",
			Description: "Errors: VWR_INACTIVE, LOBBY_OPEN (before the start), PROOF_REQUIRED (a proof of work is owed: the event asks for one, or many " +
				"new visitors come from this address; `challengeUrl` is where the challenge is, and a proof that was refused is of no use any more), OVERLOADED.",
		},
		{
			ID: "vwr.challenge", Method: http.MethodGet, Pattern: "/vwr-api/vwr/challenge/{event_id}", Who: edge.Visitor, Handler: e.rooms.Challenge,
			Issues: true, Answer: &gatewayv1.Challenge{}, Summary: "The challenge of the proof of work for a position",
			Description: "Find a nonce of 1–32 of `[A-Za-z0-9_-]` such that the SHA-256 of `<challenge>.<nonce>` begins with `difficulty` zero bits, and " +
				"send that as `x-vwr-proof` to assign. The challenge is for this visitor and one position, and lasts 5 minutes. If more is owed later, it " +
				"still counts for a minute after its issue.\n\nErrors: as assign, but for PROOF_REQUIRED.",
		},
		{
			ID: "vwr.check", Method: http.MethodGet, Pattern: "/vwr-api/vwr/check/{event_id}/{request_id}", Who: edge.Visitor, Handler: e.rooms.Check,
			FastPath: true, Poll: true, Headers: []edge.Header{vwrTicket}, Answer: &vwrv1.Checked{},
			Summary: "Whether the position is served; then with the tier-1 token",
		},
		{
			ID: "vwr.status", Method: http.MethodGet, Pattern: "/vwr-api/vwr/status/{event_id}", Who: edge.Public, Handler: e.rooms.Status,
			FastPath: true, Poll: true, Answer: &gatewayv1.WaitingRoomStatus{}, Summary: "How long the waiting room's line is",
		},
		{
			ID: "vwr.serving", Method: http.MethodGet, Pattern: "/vwr-api/vwr/serving/{event_id}", Who: edge.Public, Handler: e.rooms.Serving,
			FastPath: true, Poll: true, Answer: &gatewayv1.ServingCounter{}, Summary: "The serving counter, for shared caches",
		},
	}
}

// queueRoutes are the routes of tier 2. queue itself checks the tier-1 position of new visitors
// while a waiting room is active.
func (e *endpoints) queueRoutes() []*edge.Route {
	headers := []edge.Header{queueTicket, entryToken}
	return []*edge.Route{
		{
			ID: "queue.check", Method: http.MethodPost, Pattern: "/api/v1/queue/check/{event_id}", Who: edge.User, Handler: e.line.Check,
			Body: edge.JSONBody(&gatewayv1.Nothing{}), Headers: headers, Answer: &queuev1.Place{}, Summary: "Joins the line or finds the place in it",
		},
		{
			ID: "queue.status", Method: http.MethodGet, Pattern: "/api/v1/queue/status/{event_id}", Who: edge.User, Handler: e.line.Status,
			FastPath: true, Poll: true, Headers: headers, Answer: &queuev1.Place{}, Summary: "The place in the line",
		},
		{
			ID: "queue.heartbeat", Method: http.MethodPost, Pattern: "/api/v1/queue/heartbeat/{event_id}", Who: edge.User, Handler: e.line.Heartbeat,
			Poll: true, Body: edge.JSONBody(&gatewayv1.Nothing{}), Headers: headers, Answer: &gatewayv1.Beat{},
			Summary: "Keeps the slot and renews the entry token",
		},
		{
			ID: "queue.leave", Method: http.MethodPost, Pattern: "/api/v1/queue/leave/{event_id}", Who: edge.User, Handler: e.line.Leave,
			Body: edge.JSONBody(&gatewayv1.Nothing{}), Headers: headers, Status: http.StatusNoContent,
			Summary: "Ends the slot of the entry token sent, else the waiting place",
		},
	}
}

func (e *endpoints) seatRoutes() []*edge.Route {
	return []*edge.Route{
		{
			ID: "seats.layout", Method: http.MethodGet, Pattern: "/api/v1/seats/{event_id}", Who: edge.Entry, Event: edge.FromPath, Handler: e.seats.Layout,
			Poll: true, Answer: &ticketv1.SeatMap{}, Summary: "The seat map's layout",
		},
		{
			ID: "seats.availability", Method: http.MethodGet, Pattern: "/api/v1/seats/{event_id}/availability", Who: edge.Entry, Event: edge.FromPath,
			Handler: e.seats.Availability, FastPath: true, Traced: true, Poll: true, Answer: &ticketv1.Availability{}, Summary: "Which seats are free: a bitmap, or JSON by Accept",
		},
		{
			ID: "seats.reserve", Method: http.MethodPost, Pattern: "/api/v1/seats/reserve", Who: edge.Entry, Event: edge.FromBody, Handler: e.seats.Reserve, Refusal: e.seats.Refusal,
			Body: edge.JSONBody(&ticketv1.HoldSeatsItem{}), Headers: []edge.Header{idempotencyKey}, Status: http.StatusCreated,
			Answer: &ticketv1.Reservation{}, Summary: "Holds the named seats, all or none",
		},
		{
			ID: "reservations.best", Method: http.MethodPost, Pattern: "/api/v1/reservations", Who: edge.Entry, Event: edge.FromBody, Handler: e.seats.Best, Refusal: e.seats.Refusal,
			Body: edge.JSONBody(&ticketv1.HoldBestItem{}), Headers: []edge.Header{idempotencyKey}, Status: http.StatusCreated,
			Answer: &ticketv1.Reservation{}, Summary: "Holds the best seats available, or general admissions",
		},
		{
			ID: "payments.webhook", Method: http.MethodPost, Pattern: "/api/v1/payments/webhooks/{provider}", Who: edge.Public, Handler: e.webhooks.Handle,
			Body: edge.Body{Raw: true}, Summary: "A payment provider's call; its signature is checked",
		},
	}
}

// operatorRoutes show operators what happens now.
func (e *endpoints) operatorRoutes() []*edge.Route {
	return []*edge.Route{{
		ID: "admin.live", Method: http.MethodGet, Pattern: "/api/v1/admin/live/{event_id}", Who: edge.Admin, Handler: e.live.Figures,
		Stream: true, Poll: true, Answer: &gatewayv1.LiveFigures{}, Example: liveExample, Summary: "What happens in an event now, each second",
		Description: "`text/event-stream` ([SSE](https://html.spec.whatwg.org/multipage/server-sent-events.html)): a message each second, its data as below. A " +
			"figure is absent while its service does not answer, or does not know the event; it is never guessed. The stream ends after ten " +
			"minutes, when the gateway stops, and, with an event `end` that has the `code`, when the session does; an `EventSource` connects " +
			"again by itself.\n\nErrors: UNAUTHENTICATED, ROLE_REQUIRED, OVERLOADED (too many listeners at this gateway).",
	}}
}

const liveExample = `{"at": "2026-03-07T01:00:00.000Z", "roomWaiting": 4100, "serving": 900, "waiting": 120, "active": 200, "holds": 35,
	"sold": 412, "failures": 0}`

// pageRoutes serve browsers. /vwr/ and /queue/ are open, since the others redirect there.
func (e *endpoints) pageRoutes() []*edge.Route {
	row := func(id, pattern string, who edge.Who, event edge.Source, handler edge.Handler) *edge.Route {
		return &edge.Route{ID: id, Method: http.MethodGet, Pattern: pattern, Who: who, Event: event, Handler: handler, Page: true, Poll: true}
	}
	page := func(name string) edge.Handler { return fromHTTP(e.pages.Page(name)) }
	routes := []*edge.Route{
		row("page.events", "/", edge.Public, edge.None, page("events")),
		row("page.event", "/events/{event_id}", edge.Public, edge.FromPath, eventPage(e.pages, e.existence)),
		row("page.seats", "/events/{event_id}/seats", edge.Entry, edge.FromPath, page("seats")),
		row("page.book", "/events/{event_id}/book", edge.Entry, edge.FromPath, page("book")),
		row("page.room", "/vwr/{event_id}", edge.Public, edge.None, fromHTTP(e.pages.WaitingRoom)),
		row("page.queue", "/queue/{event_id}", edge.Public, edge.None, page("queue")),
		row("page.checkout", "/checkout/{reservation_id}", edge.Public, edge.None, page("checkout")),
		row("page.my", "/my", edge.Public, edge.None, page("my")),
		row("page.login", "/login", edge.Public, edge.None, page("login")),
		row("page.docs", "/docs", edge.Public, edge.None, e.reference.Page),
		row("page.openapi", "/docs/openapi.json", edge.Public, edge.None, e.reference.Document),
		row("page.robots", "/robots.txt", edge.Public, edge.None, fromHTTP(e.pages.Robots)),
		row("page.asset", "/assets/{file}", edge.Public, edge.None, fromHTTP(e.pages.Assets)),
		row("page.health", "/health", edge.Public, edge.None, fromHTTP(http.HandlerFunc(health))),
	}
	if e.rewards != nil {
		routes = append(routes, row("page.campaign", "/rewards/{event_id}", edge.Public, edge.None, page("campaign")))
	}
	if e.promotions != nil {
		routes = append(routes,
			row("page.promotion", "/promo/{event_id}", edge.Public, edge.None, page("promo")),
			row("page.draw", "/draws/{event_id}", edge.Public, edge.None, page("draw")),
		)
	}
	return routes
}

// Headers that routes read besides credentials.
var (
	idempotencyKey = edge.Header{
		Name: identity.IdempotencyHeader, Description: "1 to 255 visible characters; the same call again with the same key gets the first answer.",
	}
	requiredKey = edge.Header{Name: idempotencyKey.Name, Description: idempotencyKey.Description, Required: true}
	ifMatch     = edge.Header{
		Name:        identity.IfMatchHeader,
		Description: "An ETag of the event's settings: they are replaced only if nobody has changed them since. * demands that the event is there.",
	}
	queueTicket = edge.Header{
		Name: identity.QueueTicketHeader, Description: "The ticket of the last answer: it keeps the place should the line be lost.",
	}
	entryToken = edge.Header{Name: identity.EntryHeader, Description: "The entry token, once there is one."}
	vwrProof   = edge.Header{
		Name: identity.ProofHeader, Description: "`<challenge>.<nonce>`, where a proof of work is owed. Not needed again while the first one has not expired.",
	}
	vwrTicket = edge.Header{Name: identity.VWRTicketHeader, Description: "The ticket of assign: with it a check costs no lookup."}
)

// passThroughDetails has what the HTTP rules cannot express: a call that creates something responds
// with 201, a payment provider may take 10 s, and operators' acts that can pause, slow or shut out
// must work in an outage (Stops). Acts that cannot be taken back need not, since a pause has their
// effect at first: closing a promotion, cancelling a campaign. Nor need those that only let people
// in: resuming, unblocking.
//
// A threshold and the settings of a waiting room can do either. They are served whatever their
// value: whether it lets more in depends on the present value, which only the service behind the
// route knows, and a gateway that judged bodies might refuse an act that stops a sale. The record of
// such an act waits (package audit).
var passThroughDetails = map[string]edge.Details{
	queuev1.QueueAdminService_SetThreshold_FullMethodName:      {Stops: true},
	queuev1.QueueAdminService_Pause_FullMethodName:             {Stops: true},
	queuev1.QueueAdminService_Revoke_FullMethodName:            {Stops: true},
	queuev1.QueueAdminService_Block_FullMethodName:             {Stops: true},
	vwrv1.VwrAdminService_Activate_FullMethodName:              {Stops: true},
	ingestv1.IngestAdminService_PausePromotion_FullMethodName:  {Stops: true},
	rewardv1.RewardAdminService_PauseProvider_FullMethodName:   {Stops: true},
	paymentv1.PaymentService_Prepare_FullMethodName:            {Status: http.StatusCreated, Headers: []edge.Header{requiredKey}},
	paymentv1.PaymentService_Confirm_FullMethodName:            {Timeout: 20 * time.Second, Headers: []edge.Header{requiredKey}},
	ticketv1.EventAdminService_CreateEvent_FullMethodName:      {Status: http.StatusCreated, Headers: []edge.Header{idempotencyKey}},
	ticketv1.EventAdminService_PutEvent_FullMethodName:         {Headers: []edge.Header{ifMatch}},
	rewardv1.RewardService_GetCampaign_FullMethodName:          {Example: campaignExample},
	rewardv1.RewardService_GetMyPart_FullMethodName:            {Example: partExample},
	rewardv1.RewardService_ListMyRewards_FullMethodName:        {Example: rewardsExample},
	rewardv1.RewardAdminService_CreateCampaign_FullMethodName:  {Status: http.StatusCreated, Headers: []edge.Header{idempotencyKey}, Example: campaignExample},
	rewardv1.RewardAdminService_CancelCampaign_FullMethodName:  {Status: http.StatusAccepted},
	rewardv1.RewardAdminService_ListRewards_FullMethodName:     {Example: failedExample},
	rewardv1.RewardAdminService_RetryRewards_FullMethodName:    {Example: `{"retried": 12}`},
	rewardv1.RewardAdminService_CancelReward_FullMethodName:    {Status: http.StatusAccepted},
	rewardv1.RewardAdminService_GetSummary_FullMethodName:      {Example: summaryExample},
	ingestv1.IngestService_GetPromotion_FullMethodName:         {Example: promotionExample},
	ingestv1.IngestService_GetRequest_FullMethodName:           {Example: requestExample},
	ingestv1.IngestService_GetDrawProof_FullMethodName:         {Example: drawProofExample},
	ingestv1.IngestService_GetTimeline_FullMethodName:          {Example: timelineExample},
	ingestv1.IngestAdminService_CreatePromotion_FullMethodName: {Status: http.StatusCreated, Headers: []edge.Header{idempotencyKey}, Example: promotionExample},
	ingestv1.IngestAdminService_GetSummary_FullMethodName:      {Example: requestSummaryExample},
	workerv1.WorkerAdminService_ListDeadLetters_FullMethodName: {Example: deadLettersExample},
	workerv1.WorkerAdminService_RedriveRequests_FullMethodName: {Timeout: 15 * time.Second, Example: redrivenExample},
}
