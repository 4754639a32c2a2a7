package app

import (
	"urr.guru/services/gateway/internal/edge"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

var (
	inMemory = edge.Cost{Reads: "nothing"}
	drawCost = edge.Cost{Reads: "DynamoDB: a draw, and a part of its lists", Cached: "1 s, parts by size"}
)

// routeCosts has, by route id or RPC, what the reads cost that visitors may make without signing in.
var routeCosts = map[string]edge.Cost{
	"vwr.challenge":             inMemory,
	"vwr.check":                 {Reads: "DynamoDB: a counter; without a ticket a position", Cached: "a position for the round"},
	"vwr.status":                inMemory,
	"vwr.serving":               inMemory,
	"vwr.shuffle":               drawCost,
	"vwr.shuffle.entries":       drawCost,
	"vwr.shuffle.proof":         drawCost,
	"vwr.shuffle.round":         drawCost,
	"vwr.shuffle.round.entries": drawCost,
	"vwr.shuffle.round.proof":   drawCost,
	"auth.login":                {Reads: "the identity provider"},
	"auth.callback":             {Reads: "the identity provider"},
	"payments.return":           {Reads: "PostgreSQL: a payment; its provider"},
	"draws.document":            drawCost,
	"draws.entries":             drawCost,
	"draws.chunk":               drawCost,
	"stats.series":              {Reads: "PostgreSQL: an event's minutes or quarters", Cached: "1 s"},

	vwrv1.VwrService_ListShuffles_FullMethodName:          {Reads: "DynamoDB: a page of lobbies", Cached: "1 s"},
	ingestv1.IngestService_ListPromotions_FullMethodName:  {Reads: "DynamoDB: 2 eventually consistent reads, of later pages one at a time", Cached: "1 s"},
	ingestv1.IngestService_GetPromotion_FullMethodName:    {Reads: "DynamoDB: a promotion, its capacity", Cached: "1 s, capacity 0.5 s"},
	ingestv1.IngestService_GetDrawProof_FullMethodName:    drawCost,
	statsv1.StatsService_GetEventStats_FullMethodName:     {Reads: "PostgreSQL: an event's totals", Cached: "1 s"},
	statsv1.StatsService_GetEventSeries_FullMethodName:    {Reads: "PostgreSQL: an event's minutes or quarters", Cached: "1 s"},
	ticketv1.EventService_ListEvents_FullMethodName:       {Reads: "PostgreSQL: a page of events, counts of seats", Cached: "1 s, counts 5 s"},
	ticketv1.EventService_GetEvent_FullMethodName:         {Reads: "PostgreSQL: an event, counts of seats", Cached: "0.25 s"},
	ticketv1.MembershipService_ListPlans_FullMethodName:   {Reads: "PostgreSQL: the plans", Cached: "1 s"},
	paymentv1.PaymentService_ListProviders_FullMethodName: inMemory,
	rewardv1.RewardService_GetCampaign_FullMethodName:     {Reads: "PostgreSQL: a campaign, its milestones and prizes", Cached: "1 s"},
}

// declareCosts sets the cost of each route that has one.
func declareCosts(routes []*edge.Route) {
	for _, r := range routes {
		if cost, ok := routeCosts[r.ID]; ok {
			r.Cost = cost
		} else {
			r.Cost = routeCosts[r.RPC]
		}
	}
}
