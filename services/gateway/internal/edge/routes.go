package edge

import (
	"net/http"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// Handwritten lists every route that is not a pass-through: hot polls and batched calls, sign-in, the seat bitmap, webhooks, pages.
// devLogin adds the development sign-in, which otherwise does not exist. The whole table is this list and the services' HTTP rules.
func Handwritten(devLogin bool) []*Route {
	return slices.Concat(authRoutes(devLogin), roomRoutes(), queueRoutes(), seatRoutes(), pageRoutes())
}

func authRoutes(devLogin bool) []*Route {
	routes := []*Route{
		{ID: "auth.me", Method: http.MethodGet, Pattern: "/api/v1/auth/me", Who: User, Answer: &gatewayv1.Session{}, Summary: "Who is signed in, and until when"},
		{
			ID: "auth.logout", Method: http.MethodPost, Pattern: "/api/v1/auth/logout", Who: User, Status: http.StatusNoContent,
			Body: jsonOf(&gatewayv1.Nothing{}), Summary: "Ends the session of this browser",
		},
	}
	routes = append(routes, &Route{
		ID: "sessions.revoke", Method: http.MethodPost, Pattern: "/api/v1/admin/sessions/revoke", Who: Admin, Status: http.StatusNoContent,
		Body: jsonOf(&gatewayv1.RevokeSessionsRequest{}), Summary: "Ends one session, or all of a user's, at all gateways",
	})
	if devLogin {
		routes = append(routes, &Route{
			ID: "auth.dev-login", Method: http.MethodPost, Pattern: "/api/v1/auth/dev-login", Who: Public,
			Body: jsonOf(&gatewayv1.DevLoginRequest{}), Answer: &gatewayv1.Session{}, Summary: "Signs in as anybody (development only)",
		})
	}
	return routes
}

// roomRoutes are tier 1's. They are open while a waiting room is active: they are the way through it.
func roomRoutes() []*Route {
	return []*Route{
		{
			ID: "vwr.assign", Method: http.MethodPost, Pattern: "/vwr-api/vwr/assign/{event_id}", Who: Visitor, Issues: true,
			Timeout: 12 * time.Second,
			Body:    jsonOf(&gatewayv1.AssignBody{}), Answer: &vwrv1.Assigned{}, Summary: "Gives the visitor a position, the same again when repeated",
		},
		{
			ID: "vwr.check", Method: http.MethodGet, Pattern: "/vwr-api/vwr/check/{event_id}/{request_id}", Who: Visitor,
			Hot: true, Poll: true, Answer: &vwrv1.Checked{}, Summary: "Whether the position is served; then with the tier-1 token",
		},
		{
			ID: "vwr.status", Method: http.MethodGet, Pattern: "/vwr-api/vwr/status/{event_id}", Who: Public,
			Hot: true, Poll: true, Answer: &gatewayv1.WaitingRoomStatus{}, Summary: "How long the waiting room's line is",
		},
		{
			ID: "vwr.serving", Method: http.MethodGet, Pattern: "/vwr-api/vwr/serving/{event_id}", Who: Public,
			Hot: true, Poll: true, Answer: &gatewayv1.ServingCounter{}, Summary: "The serving counter, for shared caches",
		},
	}
}

// queueRoutes are tier 2's; queue itself asks newcomers for their tier-1 position while a waiting room is active.
func queueRoutes() []*Route {
	return []*Route{
		{
			ID: "queue.check", Method: http.MethodPost, Pattern: "/api/v1/queue/check/{event_id}", Who: User,
			Body: jsonOf(&gatewayv1.Nothing{}), Answer: &queuev1.Place{}, Summary: "Joins the line or finds the place in it",
		},
		{
			ID: "queue.status", Method: http.MethodGet, Pattern: "/api/v1/queue/status/{event_id}", Who: User,
			Hot: true, Poll: true, Answer: &queuev1.Place{}, Summary: "The place in the line",
		},
		{
			ID: "queue.heartbeat", Method: http.MethodPost, Pattern: "/api/v1/queue/heartbeat/{event_id}", Who: User, Poll: true,
			Body: jsonOf(&gatewayv1.Nothing{}), Answer: &gatewayv1.Beat{}, Summary: "Keeps the slot and renews the entry token",
		},
		{
			ID: "queue.leave", Method: http.MethodPost, Pattern: "/api/v1/queue/leave/{event_id}", Who: User, Status: http.StatusNoContent,
			Body: jsonOf(&gatewayv1.Nothing{}), Summary: "Ends the slot of the entry token sent, else the waiting place",
		},
	}
}

func seatRoutes() []*Route {
	return []*Route{
		{
			ID: "seats.layout", Method: http.MethodGet, Pattern: "/api/v1/seats/{event_id}", Who: Entry, Event: FromPath,
			Poll: true, Answer: &ticketv1.SeatMap{}, Summary: "The seat map's layout",
		},
		{
			ID: "seats.availability", Method: http.MethodGet, Pattern: "/api/v1/seats/{event_id}/availability", Who: Entry, Event: FromPath,
			Poll: true, Answer: &ticketv1.Availability{}, Summary: "Which seats are free: a bitmap, or JSON by Accept",
		},
		{
			ID: "seats.reserve", Method: http.MethodPost, Pattern: "/api/v1/seats/reserve", Who: Entry, Event: FromBody,
			Body: jsonOf(&ticketv1.HoldSeatsItem{}), Status: http.StatusCreated, Answer: &ticketv1.Reservation{}, Summary: "Holds the named seats, all or none",
		},
		{
			ID: "reservations.best", Method: http.MethodPost, Pattern: "/api/v1/reservations", Who: Entry, Event: FromBody,
			Body: jsonOf(&ticketv1.HoldBestItem{}), Status: http.StatusCreated, Answer: &ticketv1.Reservation{}, Summary: "Holds the best seats available, or general admissions",
		},
		{
			ID: "payments.webhook", Method: http.MethodPost, Pattern: "/api/v1/payments/webhooks/{provider}", Who: Public,
			Body: Body{Raw: true}, Summary: "A payment provider's call; its signature is checked",
		},
	}
}

func jsonOf(m proto.Message) Body {
	return Body{JSON: true, Message: func() proto.Message { return m.ProtoReflect().New().Interface() }}
}

// pageRoutes answer browsers. /vwr/ and /queue/ are open, as they are where the others redirect to.
func pageRoutes() []*Route {
	page := func(id, pattern string, who Who, event Source) *Route {
		return &Route{ID: id, Method: http.MethodGet, Pattern: pattern, Who: who, Event: event, Page: true, Poll: true}
	}
	return []*Route{
		page("page.events", "/", Public, None),
		page("page.event", "/events/{event_id}", Public, FromPath),
		page("page.seats", "/events/{event_id}/seats", Entry, FromPath),
		page("page.book", "/events/{event_id}/book", Entry, FromPath),
		page("page.room", "/vwr/{event_id}", Public, None),
		page("page.queue", "/queue/{event_id}", Public, None),
		page("page.checkout", "/checkout/{reservation_id}", Public, None),
		page("page.my", "/my", Public, None),
		page("page.login", "/login", Public, None),
		page("page.docs", "/docs", Public, None),
		page("page.openapi", "/docs/openapi.json", Public, None),
		page("page.robots", "/robots.txt", Public, None),
		page("page.asset", "/assets/{file}", Public, None),
		page("page.health", "/health", Public, None),
	}
}
