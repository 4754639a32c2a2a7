package e2e_test

import (
	"net/http"
	"strings"
	"time"
)

// want is the expected refusal of an attempt.
type want struct {
	status int
	code   string
}

// promotionBody creates a promotion that is open now. A promotion lasts at most a year.
var promotionBody = `{"title":"T","eventType":"FIRST_COME","capacityTotal":5,"opensAt":"` +
	time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -1).Format(time.RFC3339) + `","closesAt":"` +
	time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 2).Format(time.RFC3339) + `"}`

// beaconBody has the format of a beacon round, but is not a real one.
var beaconBody = `{"value":"` + strings.Repeat("ab", 32) + `","signature":"` + strings.Repeat("cd", 48) + `"}`

var (
	invalid       = want{http.StatusBadRequest, "INVALID_REQUEST"}
	invalidID     = want{http.StatusBadRequest, "INVALID_ID"}
	invalidCursor = want{http.StatusBadRequest, "INVALID_CURSOR"}
	keyMissing    = want{http.StatusBadRequest, "IDEMPOTENCY_KEY_REQUIRED"}
	noEvent       = want{http.StatusNotFound, "EVENT_NOT_FOUND"}
	noRoom        = want{http.StatusNotFound, "VWR_INACTIVE"}
	noPosition    = want{http.StatusNotFound, "VWR_REQUEST_UNKNOWN"}
	noReservation = want{http.StatusNotFound, "RESERVATION_NOT_FOUND"}
	noTicket      = want{http.StatusNotFound, "TICKET_NOT_FOUND"}
	noCode        = want{http.StatusNotFound, "CODE_INVALID"}
	noBatch       = want{http.StatusNotFound, "BATCH_NOT_FOUND"}
	noWebhook     = want{http.StatusNotFound, "WEBHOOK_NOT_FOUND"}
	noTransfer    = want{http.StatusNotFound, "TRANSFER_NOT_FOUND"}
	noPlan        = want{http.StatusNotFound, "PLAN_NOT_FOUND"}
	noMembership  = want{http.StatusNotFound, "MEMBERSHIP_NOT_FOUND"}
	noPayment     = want{http.StatusNotFound, "PAYMENT_NOT_FOUND"}
	noRefund      = want{http.StatusNotFound, "REFUND_NOT_FOUND"}
	noDifference  = want{http.StatusNotFound, "DIFFERENCE_NOT_FOUND"}
	notRefundable = want{http.StatusConflict, "NOT_REFUNDABLE"}
	nothingByHand = want{http.StatusConflict, "NOTHING_BY_HAND"}
	noUpload      = want{http.StatusNotFound, "UPLOAD_NOT_FOUND"}
	noReference   = want{http.StatusNotFound, "REFERENCE_NOT_FOUND"}
	noCampaign    = want{http.StatusNotFound, "CAMPAIGN_NOT_FOUND"}
	noReward      = want{http.StatusNotFound, "REWARD_NOT_FOUND"}
	noPromotion   = want{http.StatusNotFound, "PROMOTION_NOT_FOUND"}
	noRequest     = want{http.StatusNotFound, "REQUEST_NOT_FOUND"}
	noDraw        = want{http.StatusNotFound, "DRAW_NOT_FOUND"}
	notOpen       = want{http.StatusConflict, "NOT_OPEN"}
	noSlot        = want{http.StatusForbidden, "SLOT_ENDED"}
)

// inputRow describes the invalid requests of a route that only the services behind the gateway can
// detect.
type inputRow struct {
	// The event in the path: inputWorld.calm, or its busy, campaign or promotion if that is set.
	busy, campaign, promotion bool
	// body returns a valid body, in which the values of bad are inserted one at a time.
	body func(w *inputWorld) string
	// bad has invalid values of single JSON fields. queries has invalid query strings.
	bad     []badValue
	queries map[string]want
	// keyed is true if the service requires an Idempotency-Key.
	keyed bool
	// The responses: unknown for an event or reward that does not exist, stranger to the request of
	// another user, misused to the unchanged valid body.
	unknown, stranger, misused want
	// delayed is true if the queue service first responds as for an event without a line, until it has
	// learnt from the ticket service that the event does not exist.
	delayed bool
	// noneBecause explains why no service refuses a request that the gateway has accepted.
	noneBecause string
}

type badValue struct {
	member, value string // raw JSON; value "" removes the field
	want          want
	path          string // of the invalid field in the error; "": not checked
}

var (
	longID   = `"` + strings.Repeat("a", 201) + `"`
	badSales = []badValue{
		{"salesCloseAt", `"2028-12-31T10:00:00Z"`, invalid, "salesCloseAt"},
		{"startsAt", `"2028-12-31T10:00:00Z"`, invalid, "startsAt"},
		{"seating", `"ASSIGNED"`, invalid, "sections[0].rows"},
		{"doorsAt", `"2031-01-01T00:00:00Z"`, invalid, "doorsAt"},
		{"closesAt", `"2031-01-01T00:00:00Z"`, invalid, "closesAt"},
		{"refundUntil", `"never"`, invalid, "refundUntil"},
		{"refundUntil", `"2030-01-01T09:30:00Z"`, invalid, "refundUntil"},
		{"timeZone", `"Asia/Soul"`, invalid, "timeZone"},
		{"cancellationFees", `{"steps":[{"until":"2029-12-01T00:00:00Z","percent":1},{"until":"2029-12-01T00:00:00Z","percent":2}]}`, invalid,
			"cancellationFees.steps[1].until"},
		{"maxPerUserInSeries", `2`, invalid, "maxPerUserInSeries"},
		{"sections", `[{"section":"A","price":1,"capacity":1},{"section":"A","price":1,"capacity":1}]`, invalid, "sections[1].section"},
	}
	badPages  = map[string]want{"cursor=not-a-cursor": invalidCursor}
	badSeries = map[string]want{"from=2026-01-01T00:01:00Z&to=2026-01-01T00:00:00Z": invalid}
	badDays   = map[string]want{"from=2026-01-02&to=2026-01-01": invalid}
	// Cursors of rewards and of shuffles are numbers.
	badNumberedPages = map[string]want{"cursor=not-a-cursor": invalidCursor, "cursor=-1": invalidCursor, "cursor=0": invalidCursor}
)

// visitorRows and operatorRows have the inputs to try at each route of the API reference. A route
// without a row fails the test.
var visitorRows = map[string]inputRow{
	// Sign-in
	"POST /api/v1/auth/dev-login":        {noneBecause: answeredByGateway},
	"GET /api/v1/auth/me":                {noneBecause: answeredByGateway},
	"POST /api/v1/auth/logout":           {noneBecause: answeredByGateway},
	"POST /api/v1/admin/sessions/revoke": {noneBecause: answeredByGateway},

	// Events and seats
	"GET /api/v1/events":                       {queries: badPages},
	"GET /api/v1/events/{eventId}":             {unknown: noEvent},
	"GET /api/v1/seats/{eventId}":              {},
	"GET /api/v1/seats/{eventId}/availability": {},
	"GET /api/v1/seats/{eventId}/changes":      {},
	"POST /api/v1/seats/reserve": {
		body: func(w *inputWorld) string { return `{"eventId":"` + w.calm + `","seatIds":["A-1-5"]}` },
		bad: []badValue{
			{"seatIds", ``, invalid, "seatIds"},
			{"seatIds", `null`, invalid, "seatIds"},
			{"seatIds", `[` + longID + `]`, invalidID, "seatIds[0]"},
			{"seatIds", `["A-1-5","A-1-5"]`, invalid, "seatIds"},
			{"seatIds", `["A-1-5","Z-9-9"]`, want{http.StatusNotFound, "SEAT_NOT_FOUND"}, ""},
		},
	},
	"POST /api/v1/reservations": {
		body: func(w *inputWorld) string { return `{"eventId":"` + w.calm + `","section":"A","quantity":1}` },
		bad: []badValue{
			{"section", ``, invalidID, "section"},
			{"section", `null`, invalidID, "section"},
			{"section", longID, invalidID, "section"},
			{"section", `"Z"`, want{http.StatusNotFound, "SECTION_NOT_FOUND"}, ""},
			{"quantity", ``, invalid, "quantity"},
			{"quantity", `null`, invalid, "quantity"},
			{"quantity", `1001`, invalid, "quantity"},
		},
	},
	"GET /api/v1/reservations/{reservationId}":    {stranger: noReservation},
	"DELETE /api/v1/reservations/{reservationId}": {stranger: noReservation},

	// Presales
	"GET /api/v1/events/{eventId}/me":     {unknown: noEvent},
	"POST /api/v1/events/{eventId}/codes": {body: text(`{"code":"unknown"}`), misused: noCode, bad: []badValue{{"code", ``, invalid, "code"}}},
	"POST /api/v1/admin/events/{eventId}/codes": {
		body: text(`{"codeList":"friends","count":1}`), bad: []badValue{
			{"codeList", `"a b"`, invalid, "codeList"},
			{"count", `10001`, invalid, "count"},
		},
	},
	"GET /api/v1/admin/events/{eventId}/codes":                                              {unknown: noEvent},
	"POST /api/v1/admin/events/{eventId}/codes/{batchId}/withdraw":                          {body: text(`{}`), misused: noBatch},
	"GET /api/v1/admin/events/{eventId}/entitlements":                                       {unknown: noEvent},
	"PUT /api/v1/admin/events/{eventId}/entitlements/{list}":                                {misused: invalid},
	"GET /api/v1/admin/events/{eventId}/entitlements/{list}/versions":                       {queries: badPages},
	"GET /api/v1/admin/events/{eventId}/entitlements/{list}/versions/{versionId}/users.csv": {misused: noUpload},

	// Resources of the user
	"GET /api/v1/my/reservations":                                      {queries: badPages},
	"GET /api/v1/my/tickets":                                           {queries: badPages},
	"GET /api/v1/my/reservations/{reservationId}":                      {stranger: noReservation},
	"DELETE /api/v1/my/reservations/{reservationId}":                   {stranger: noReservation},
	"GET /api/v1/my/tickets/{ticketId}":                                {stranger: noTicket},
	"GET /api/v1/my/reservations/{reservationId}/payments/{paymentId}": {stranger: noReservation},
	"GET /api/v1/my/tickets/{ticketId}/qr.svg":                         {stranger: noTicket},

	"POST /api/v1/my/tickets/claim": {body: text(`{"claim":"unknown"}`), misused: noTicket},

	"GET /api/v1/my/transfers": {queries: badPages},
	"POST /api/v1/my/tickets/{ticketId}/transfers": {
		body: text(`{"price":0}`), keyed: true, stranger: noTicket, bad: []badValue{
			{"toUserId", `"a b"`, invalidID, "toUserId"},
			{"price", `1000000000001`, invalid, "price"},
		},
	},
	"POST /api/v1/my/transfers/{transferId}/cancel": {body: text(`{}`), stranger: noTransfer},
	"POST /api/v1/transfers/look":                   {body: text(`{"claim":"unknown"}`), misused: noTransfer, bad: []badValue{{"claim", ``, invalid, "claim"}}},
	"POST /api/v1/transfers/accept":                 {body: text(`{"claim":"unknown"}`), misused: noTransfer, bad: []badValue{{"claim", ``, invalid, "claim"}}},

	// Memberships
	"GET /api/v1/memberships/plans": {noneBecause: "it has no input"},
	"POST /api/v1/memberships": {
		body:    func(w *inputWorld) string { return `{"planId":"` + w.plan + `"}` },
		bad:     []badValue{{"planId", `"` + absentID + `"`, noPlan, ""}},
		misused: want{http.StatusConflict, "PLAN_NOT_ON_SALE"},
	},
	"GET /api/v1/my/memberships":                {queries: badPages},
	"GET /api/v1/my/memberships/{membershipId}": {stranger: noMembership},

	// Payments
	"POST /api/v1/payments/prepare": {
		body: func(w *inputWorld) string {
			return `{"paymentType":"reservation","referenceId":"` + w.held.ReservationID + `"}`
		},
		bad: []badValue{
			{"referenceId", `"` + absentID + `"`, noReference, ""},
			{"provider", `"bank"`, want{http.StatusNotFound, "PROVIDER_UNKNOWN"}, ""},
		},
		keyed: true, stranger: noReference,
	},
	"POST /api/v1/payments/confirm": {
		body: func(w *inputWorld) string {
			return `{"orderId":"` + w.paying.OrderID + `","paymentKey":"ok-1","amount":110000}`
		},
		bad: []badValue{
			{"orderId", `"` + absentID + `"`, noPayment, ""},
			{"amount", `109999`, want{http.StatusConflict, "AMOUNT_MISMATCH"}, ""},
		},
		keyed: true, stranger: noPayment,
	},
	"GET /api/v1/payments/{paymentId}": {stranger: noPayment},
	"POST /api/v1/payments/{paymentId}/refund": {
		body: text(`{"reason":"R"}`), keyed: true, stranger: noPayment, misused: notRefundable, // unpaid
	},
	"GET /api/v1/payments/providers":           {queries: map[string]want{"currency=won": invalid, "amount=-1": invalid}},
	"GET /api/v1/payments/return/{provider}":   {stranger: noPayment},
	"POST /api/v1/payments/{paymentId}/cancel": {body: text(`{}`), stranger: noPayment},
	"POST /api/v1/payments/webhooks/{provider}": {
		body: text(`{"id":"n-1","type":"charge.captured"}`), stranger: want{http.StatusUnauthorized, "WEBHOOK_SIGNATURE_INVALID"},
	},

	// Waiting rooms
	"POST /vwr-api/vwr/assign/{eventId}":                   {noneBecause: "the gateway knows which rooms are active"},
	"GET /vwr-api/vwr/challenge/{eventId}":                 {noneBecause: "the gateway knows which rooms are active"},
	"GET /vwr-api/vwr/check/{eventId}/{requestId}":         {busy: true, unknown: noPosition, stranger: noPosition},
	"POST /vwr-api/vwr/lobby/{eventId}":                    {noneBecause: "the gateway knows which rooms have a lobby"},
	"GET /vwr-api/vwr/shuffle/{eventId}":                   {noneBecause: noLobby},
	"GET /vwr-api/vwr/shuffle/{eventId}/entries":           {noneBecause: noLobby},
	"GET /vwr-api/vwr/shuffle/{eventId}/proof/{requestId}": {noneBecause: noLobby},
	"GET /vwr-api/vwr/shuffle/{eventId}/rounds":            {queries: badNumberedPages},
	"GET /vwr-api/vwr/shuffle/{eventId}/rounds/{round}":    {noneBecause: noLobby},

	"GET /vwr-api/vwr/shuffle/{eventId}/rounds/{round}/entries":           {noneBecause: noLobby},
	"GET /vwr-api/vwr/shuffle/{eventId}/rounds/{round}/proof/{requestId}": {noneBecause: noLobby},

	"GET /vwr-api/vwr/status/{eventId}":      {noneBecause: answeredByGateway},
	"GET /vwr-api/vwr/serving/{eventId}":     {noneBecause: answeredByGateway},
	"POST /api/v1/queue/check/{eventId}":     {body: text(`{}`), unknown: noEvent},
	"GET /api/v1/queue/status/{eventId}":     {unknown: noEvent, delayed: true},
	"POST /api/v1/queue/heartbeat/{eventId}": {body: text(`{}`), unknown: noEvent, delayed: true},
	"POST /api/v1/queue/leave/{eventId}":     {body: text(`{}`), unknown: noEvent, delayed: true},

	// Rewards. The campaign is one of draws, so that attendance is not open.
	"GET /api/v1/rewards/{eventId}":             {campaign: true, unknown: noCampaign},
	"GET /api/v1/rewards/{eventId}/me":          {campaign: true, unknown: noCampaign},
	"POST /api/v1/rewards/{eventId}/attendance": {campaign: true, body: text(`{}`), unknown: noCampaign, misused: notOpen},
	"POST /api/v1/rewards/{eventId}/draw":       {campaign: true, body: text(`{}`), unknown: noCampaign, keyed: true},
	"GET /api/v1/my/rewards":                    {queries: badNumberedPages},

	// Promotions
	"GET /api/v1/promotions":           {queries: map[string]want{"cursor=x": invalidCursor}},
	"GET /api/v1/promotions/{eventId}": {promotion: true, unknown: noPromotion},
	"GET /api/v1/promotions/{eventId}/me": {
		promotion: true, unknown: noRequest, stranger: noRequest, // not an applicant
	},
	"POST /api/v1/promotions/{eventId}/requests": {promotion: true, body: text(`{}`), unknown: noPromotion},
	"DELETE /api/v1/requests/{requestId}": {
		promotion: true, unknown: noRequest, stranger: noRequest, misused: want{http.StatusConflict, "NOT_WITHDRAWABLE"}, // no lottery
	},
	"GET /api/v1/requests/{requestId}":              {promotion: true, unknown: noRequest, stranger: noRequest},
	"GET /api/v1/requests/{requestId}/timeline":     {promotion: true, unknown: noRequest, stranger: noRequest},
	"GET /api/v1/my/requests":                       {queries: map[string]want{"cursor=x": invalidCursor}},
	"GET /api/v1/draws/{eventId}":                   {promotion: true, unknown: noDraw, misused: noDraw}, // no lottery
	"GET /api/v1/draws/{eventId}/entries":           {promotion: true, unknown: noDraw, misused: noDraw},
	"GET /api/v1/draws/{eventId}/entries/{chunk}":   {promotion: true, unknown: noDraw, misused: noDraw},
	"GET /api/v1/draws/{eventId}/proof/{requestId}": {promotion: true, unknown: noDraw, misused: noDraw},

	// Figures
	"GET /api/v1/stats/events/{eventId}":            {noneBecause: anyEvent},
	"GET /api/v1/stats/events/{eventId}/series":     {queries: badSeries},
	"GET /api/v1/stats/events/{eventId}/series.csv": {queries: badSeries},
}

var operatorRows = map[string]inputRow{
	// Doors
	"POST /api/v1/check-in": {
		body:    func(w *inputWorld) string { return `{"eventId":"` + w.calm + `","code":"x"}` },
		bad:     []badValue{{"eventId", `"nowhere"`, noEvent, ""}},
		misused: want{http.StatusConflict, "NOT_VALID"},
	},
	"POST /api/v1/check-in/{eventId}/undo": {
		body: text(`{"scanId":"` + absentID + `"}`), unknown: noEvent, misused: want{http.StatusNotFound, "SCAN_NOT_FOUND"},
	},
	"GET /api/v1/check-in/{eventId}": {unknown: noEvent},
	"GET /api/v1/check-in/{eventId}/list": {
		unknown: noEvent, queries: badPages, misused: want{http.StatusConflict, "LIST_NOT_READY"},
	},
	"POST /api/v1/check-in/{eventId}/scans": {
		body: text(`{"epoch":1,"scans":[{"scanId":"` + absentID + `","code":"x","at":"2030-01-01T00:00:00Z"}]}`), unknown: noEvent,
	},
	"GET /api/v1/check-in/{eventId}/conflicts": {queries: badPages},

	"POST /api/v1/admin/vwr/activate/{eventId}": {
		busy: true, body: text(`{"inlet":"PERIODIC","next":"QUEUE"}`), unknown: noEvent,
		bad: []badValue{
			{"inlet", `"MAX_IN_FLIGHT"`, invalid, "maxInFlight"}, // maxInFlight is missing
			{"next", `"PROMO"`, invalid, "next"},                 // the id is not that of a promotion
		},
	},
	"POST /api/v1/admin/vwr/deactivate/{eventId}":     {busy: true, body: text(`{}`), unknown: noRoom},
	"POST /api/v1/admin/vwr/advance/{eventId}":        {busy: true, body: text(`{}`), unknown: noRoom},
	"GET /api/v1/admin/vwr/status/{eventId}":          {busy: true, unknown: noRoom},
	"PUT /api/v1/queue/admin/threshold/{eventId}":     {body: text(`{"threshold":5}`), unknown: noEvent},
	"GET /api/v1/queue/admin/{eventId}":               {unknown: noEvent},
	"POST /api/v1/queue/admin/{eventId}/pause":        {body: text(`{}`), unknown: noEvent},
	"POST /api/v1/queue/admin/{eventId}/resume":       {body: text(`{}`), unknown: noEvent},
	"POST /api/v1/queue/admin/{eventId}/revoke":       {body: text(`{"userId":"nobody"}`), unknown: noEvent},
	"POST /api/v1/queue/admin/{eventId}/block":        {body: text(`{"userId":"nobody"}`), unknown: noEvent},
	"POST /api/v1/queue/admin/{eventId}/unblock":      {body: text(`{"userId":"nobody"}`), unknown: noEvent},
	"POST /api/v1/admin/events":                       {body: text(saleBody), bad: badSales},
	"GET /api/v1/admin/events/{eventId}":              {unknown: noEvent},
	"PUT /api/v1/admin/events/{eventId}":              {body: text(saleBody), bad: badSales, misused: want{http.StatusConflict, "USE_POSTPONE"}},
	"POST /api/v1/admin/events/{eventId}/pause":       {body: text(`{}`), unknown: noEvent},
	"POST /api/v1/admin/events/{eventId}/resume":      {body: text(`{}`), unknown: noEvent},
	"POST /api/v1/admin/events/{eventId}/cancel":      {body: text(`{"graceSeconds":604800}`), unknown: noEvent},
	"POST /api/v1/admin/events/{eventId}/cancel/undo": {body: text(`{}`), unknown: noEvent},
	"POST /api/v1/admin/events/{eventId}/cancel/refund": {
		body: text(`{}`), unknown: noEvent, misused: want{http.StatusConflict, "EVENT_NOT_CANCELLED"},
	},
	"POST /api/v1/admin/events/{eventId}/postpone": {
		body: text(`{"startsAt":"2125-01-01T10:00:00Z"}`), unknown: noEvent, bad: []badValue{
			{"startsAt", `"2020-01-01T10:00:00Z"`, want{http.StatusConflict, "START_PAST"}, ""},
			{"doorsAt", `"2125-01-01T11:00:00Z"`, invalid, "doorsAt"},
			{"refundUntil", `"2125-01-01T10:00:00Z"`, invalid, "refundUntil"},
			{"salesCloseAt", `"2020-01-01T10:00:00Z"`, invalid, "salesCloseAt"},
		},
	},
	"PUT /api/v1/admin/webhooks/{name}": {
		body: text(`{"url":"https://example.com/","types":["TICKETS_ISSUED"],"secret":"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"}`), bad: []badValue{
			{"url", `"example.com"`, invalid, "url"},
			{"secret", `"whsec_short"`, invalid, "secret"},
			{"types", `[]`, invalid, "types"},
			{"types", `["TICKETS_SOLD"]`, invalid, "types[0]"},
		},
	},
	"GET /api/v1/admin/webhooks":                   {noneBecause: "it has no input"},
	"DELETE /api/v1/admin/webhooks/{name}":         {noneBecause: "a webhook that does not exist is deleted"},
	"GET /api/v1/admin/webhooks/{name}/deliveries": {queries: badPages},
	"POST /api/v1/admin/webhooks/{name}/replay": {
		body: text(`{"since":"2026-01-01T00:00:00Z"}`), misused: noWebhook, bad: []badValue{
			{"since", ``, invalid, "since"},
			{"noticeIds", `["9b2f0ddc-0000-7000-8000-000000000000"]`, invalid, "since"},
			{"noticeIds", `["1"]`, invalid, "noticeIds[0]"},
		},
	},
	"GET /api/v1/admin/events/{eventId}/comps": {queries: badPages},
	"POST /api/v1/admin/events/{eventId}/comps": {
		body: text(`{"name":"Press","seatIds":["A-2-10"]}`), keyed: true, unknown: noEvent,
		misused: want{http.StatusConflict, "SEAT_TAKEN"}, // the seat is for sale, not for the house
		bad: []badValue{
			{"name", `"  "`, invalid, "name"},
			{"userId", `"a b"`, invalidID, "userId"},
			{"seatIds", `[]`, invalid, "seatIds"},
			{"section", `"A"`, invalid, "section"},
			{"seatIds", `["Z-9-9"]`, want{http.StatusNotFound, "SEAT_NOT_FOUND"}, ""},
		},
	},
	"GET /api/v1/admin/events/{eventId}/house": {unknown: noEvent},
	"PUT /api/v1/admin/events/{eventId}/house": {
		body: text(`{"take":["A-1-9"]}`), unknown: noEvent, bad: []badValue{
			{"take", `["A-1-9","A-1-9"]`, invalid, "take[1]"},
			{"take", `["Z-9-9"]`, want{http.StatusNotFound, "SEAT_NOT_FOUND"}, ""},
			{"standing", `{"Z":1}`, want{http.StatusNotFound, "SECTION_NOT_FOUND"}, ""},
			{"standing", `{"A":1}`, want{http.StatusConflict, "SEATING_MISMATCH"}, ""},
		},
	},
	"GET /api/v1/admin/stats/events/{eventId}":            {noneBecause: anyEvent},
	"GET /api/v1/admin/stats/events/{eventId}/series":     {queries: badSeries},
	"GET /api/v1/admin/stats/events/{eventId}/series.csv": {queries: badSeries},
	"GET /api/v1/admin/stats/days":                        {queries: badDays},
	"GET /api/v1/admin/stats/days.csv":                    {queries: badDays},
	"GET /api/v1/admin/audit":                             {queries: map[string]want{"cursor=x": invalidCursor, "cursor=1.x": invalidCursor}},
	"GET /api/v1/admin/live/{eventId}":                    {noneBecause: answeredByGateway},
	"POST /api/v1/admin/rewards/events": {
		body: text(campaignBody),
		bad: []badValue{
			{"title", `"  "`, invalid, "title"},
			{"closesAt", `"2026-01-01T00:00:00Z"`, invalid, "closesAt"},
			{"kind", `"ATTENDANCE"`, invalid, "daily"},
			{"kind", `"REQUEST_WINNERS"`, invalid, "promotionId"},
			{"prizes", `[]`, invalid, "prizes"},
			{"prizes", `[{"name":"P","kind":"POINT","value":0,"weight":1}]`, invalid, "prizes[0].value"},
			{"prizes", `[{"name":"P","kind":"NONE","weight":1},{"name":"P","kind":"NONE","weight":1}]`, invalid, "prizes[1].name"},
			{"daily", `{"kind":"POINT","value":5}`, invalid, "daily"},
			{"milestones", `[{"day":2,"kind":"POINT","value":5}]`, invalid, "milestones"},
		},
	},
	"POST /api/v1/admin/rewards/events/{eventId}/cancel": {campaign: true, body: text(`{}`), unknown: noCampaign},
	"GET /api/v1/admin/rewards/events/{eventId}/summary": {noneBecause: anyEvent},
	"GET /api/v1/admin/rewards": {queries: map[string]want{
		"status=FAILED&cursor=x": invalidCursor, "cursor=x": invalidCursor, "memberId=m&cursor=99999999999999999999": invalidCursor,
	}},
	"GET /api/v1/admin/payments/{paymentId}":               {unknown: noPayment},
	"POST /api/v1/admin/payments/{paymentId}/refund":       {body: text(`{"reason":"R"}`), keyed: true, misused: notRefundable},
	"POST /api/v1/admin/payments/{paymentId}/by-hand":      {body: text(`{"goodwill":1,"note":"N"}`), keyed: true, misused: nothingByHand},
	"POST /api/v1/admin/memberships/{membershipId}/refund": {body: text(`{"reason":"R"}`), keyed: true, misused: noMembership},
	"GET /api/v1/admin/memberships": {queries: map[string]want{
		"": invalidID, "userId=a+b": invalidID, "userId=u&cursor=not-a-cursor": invalidCursor, "userId=u&limit=101": invalid,
	}},
	"GET /api/v1/admin/memberships/plans": {queries: badPages},
	"POST /api/v1/admin/memberships/plans": {
		body: text(`{"name":"N","price":1,"currency":"KRW","months":1}`), keyed: true, bad: []badValue{
			{"name", `"  "`, invalid, "name"},
			{"currency", `"KRX"`, invalid, "currency"},
		},
	},
	"PUT /api/v1/admin/memberships/plans/{planId}": {body: text(`{"onSale":false}`), misused: noPlan},
	"GET /api/v1/admin/refunds":                    {queries: badPages},
	"GET /api/v1/admin/orders": {queries: map[string]want{
		"limit=5": invalid, "seat=A-1-1": invalid, "user=u&cursor=not-a-cursor": invalidCursor,
		"code=x": {http.StatusBadRequest, "TICKET_CODE_INVALID"},
	}},
	"GET /api/v1/admin/orders/{reservationId}": {unknown: noReservation},
	"POST /api/v1/admin/orders/{reservationId}/void": {
		body: text(`{"reason":"R"}`), bad: []badValue{{"reason", `" "`, invalid, "reason"}}, unknown: noReservation,
	},
	"GET /api/v1/admin/tickets/{ticketId}":        {unknown: noTicket},
	"GET /api/v1/admin/tickets/{ticketId}/qr.svg": {unknown: noTicket},
	"POST /api/v1/admin/tickets/{ticketId}/void": {
		body: text(`{"reason":"R"}`), bad: []badValue{{"reason", `" "`, invalid, "reason"}},
	},
	"POST /api/v1/admin/refunds/{refundId}/hold":          {body: text(`{}`), misused: noRefund},
	"POST /api/v1/admin/refunds/{refundId}/retry":         {body: text(`{}`), misused: noRefund},
	"POST /api/v1/admin/refunds/{refundId}/resolve":       {body: text(`{"paidOtherwise":true,"note":"N"}`), misused: noRefund},
	"GET /api/v1/admin/disputes":                          {queries: badPages},
	"GET /api/v1/admin/differences":                       {queries: badPages},
	"POST /api/v1/admin/differences/{differenceId}/close": {body: text(`{"note":"N"}`), misused: noDifference},
	"GET /api/v1/admin/rewards/{allocationId}":            {unknown: noReward},
	"POST /api/v1/admin/rewards/{allocationId}/retry": {
		body: text(`{}`), unknown: noReward, misused: want{http.StatusConflict, "REWARD_NOT_RETRYABLE"}, // it is paid
	},
	"POST /api/v1/admin/rewards/{allocationId}/cancel": {
		body: text(`{"restock":true}`), unknown: noReward, misused: want{http.StatusConflict, "REWARD_NOT_CANCELLABLE"}, // it is paid
	},
	"POST /api/v1/admin/rewards/{allocationId}/resolve": {
		body: text(`{"paid":true}`), unknown: noReward, misused: want{http.StatusConflict, "REWARD_NOT_HELD"},
	},
	"POST /api/v1/admin/promotions": {
		body: text(promotionBody),
		bad: []badValue{
			{"title", `"  "`, invalid, "title"},
			{"closesAt", `"2026-01-01T00:00:00Z"`, invalid, "closesAt"},
			{"announcedAt", `"2031-01-01T00:00:00Z"`, invalid, "announcedAt"},
			{"eventType", `"LOTTERY"`, invalid, ""},
		},
	},
	"POST /api/v1/admin/promotions/{eventId}/close":  {promotion: true, body: text(`{}`), unknown: noPromotion},
	"POST /api/v1/admin/promotions/{eventId}/pause":  {promotion: true, body: text(`{}`), unknown: noPromotion},
	"POST /api/v1/admin/promotions/{eventId}/resume": {promotion: true, body: text(`{}`), unknown: noPromotion},
	"PUT /api/v1/admin/promotions/{eventId}/expected": {
		promotion: true, body: text(`{"expected":{"visitors":1000,"withinSeconds":60}}`), unknown: noPromotion,
		bad: []badValue{{"expected", `{"visitors":1000}`, invalid, "expected.withinSeconds"}},
	},
	"POST /api/v1/admin/promotions/{eventId}/void":       {promotion: true, body: text(`{}`), unknown: noPromotion},
	"POST /api/v1/admin/promotions/{eventId}/announce":   {promotion: true, body: text(`{}`), unknown: noDraw},
	"POST /api/v1/admin/promotions/{eventId}/draw":       {promotion: true, body: text(beaconBody), unknown: noPromotion},
	"GET /api/v1/admin/promotions/{eventId}/winners.csv": {promotion: true, unknown: noPromotion},
	"GET /api/v1/admin/promotions/{eventId}/requests": {
		promotion: true, unknown: noPromotion, queries: map[string]want{"cursor=x": invalidCursor},
	},
	"GET /api/v1/admin/promotions/{eventId}/summary":     {promotion: true, unknown: noPromotion},
	"GET /api/v1/admin/requests/{requestId}":             {promotion: true, unknown: noRequest},
	"GET /api/v1/admin/requests/{requestId}/timeline":    {promotion: true, unknown: noRequest},
	"GET /api/v1/admin/dlq/requests":                     {queries: map[string]want{"cursor=x": invalidCursor}},
	"POST /api/v1/admin/dlq/requests/redrive":            {noneBecause: "a request that cannot begin anew is refused in the response"},
	"GET /api/v1/admin/dlq/admissions":                   {queries: map[string]want{"cursor=x": invalidCursor}},
	"POST /api/v1/admin/dlq/admissions/redrive":          {noneBecause: "a letter that is not there is refused in the response"},
	"GET /api/v1/admin/dlq/{topic}":                      {queries: map[string]want{"cursor=x": invalidCursor, "cursor=ticket:x": invalidCursor}},
	"POST /api/v1/admin/dlq/{topic}/redrive":             {noneBecause: "a letter that is not there is refused in the response"},
	"POST /api/v1/admin/rewards/retry":                   {noneBecause: "the campaign is named in the body"},
	"POST /api/v1/admin/rewards/providers/{name}/pause":  {noneBecause: "the gateway knows the names of the providers"},
	"POST /api/v1/admin/rewards/providers/{name}/resume": {noneBecause: "the gateway knows the names of the providers"},
}
