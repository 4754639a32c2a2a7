package rpc_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

const webhookSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"

func TestWebhooks(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	put := &ticketv1.PutWebhookRequest{Caller: admin(), Name: "crm", Url: "https://example.com/urr", Types: []string{"TICKETS_ISSUED"}}
	_, err := c.PutWebhook(ctx, put)
	requireReason(t, err, "INVALID_REQUEST", "secret")
	put.Secret = webhookSecret
	made, err := c.PutWebhook(ctx, put)
	require.NoError(t, err)
	require.Nil(t, made.GetFormerSecretUntil())
	put.Secret = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4"
	changed, err := c.PutWebhook(ctx, put)
	require.NoError(t, err)
	require.WithinDuration(t, c.clock.Now().AddDate(0, 0, 1), changed.GetFormerSecretUntil().AsTime(), 1e9)
	list, err := c.ListWebhooks(ctx, &ticketv1.ListWebhooksRequest{Caller: admin()})
	require.NoError(t, err)
	require.Len(t, list.GetItems(), 1)
	require.Equal(t, "https://example.com/urr", list.GetItems()[0].GetUrl())
	require.NotContains(t, list.String(), "whsec_")

	_, err = c.ReplayWebhook(ctx, &ticketv1.ReplayWebhookRequest{Caller: admin(), Name: "crm"})
	requireReason(t, err, "INVALID_REQUEST", "since")
	_, err = c.ReplayWebhook(ctx, &ticketv1.ReplayWebhookRequest{
		Caller: admin(), Name: "crm", Since: timestamppb.New(opening), NoticeIds: []string{uuid.Max.String()},
	})
	requireReason(t, err, "INVALID_REQUEST", "since")
	replayed, err := c.ReplayWebhook(ctx, &ticketv1.ReplayWebhookRequest{Caller: admin(), Name: "crm", Since: timestamppb.New(opening)})
	require.NoError(t, err)
	require.Zero(t, replayed.GetQueued())
	log, err := c.ListDeliveries(ctx, &ticketv1.ListDeliveriesRequest{Caller: admin(), Name: "crm"})
	require.NoError(t, err)
	require.Empty(t, log.GetItems())
	_, err = c.ListDeliveries(ctx, &ticketv1.ListDeliveriesRequest{Caller: admin(), Name: "other"})
	requireReason(t, err, "WEBHOOK_NOT_FOUND")

	for _, call := range []func() error{
		func() error {
			_, err := c.PutWebhook(ctx, &ticketv1.PutWebhookRequest{Caller: signedIn("eve"), Name: "crm", Url: put.GetUrl(), Types: put.GetTypes()})
			return err
		},
		func() error {
			_, err := c.ListWebhooks(ctx, &ticketv1.ListWebhooksRequest{Caller: signedIn("eve")})
			return err
		},
		func() error {
			_, err := c.DeleteWebhook(ctx, &ticketv1.DeleteWebhookRequest{Caller: signedIn("eve"), Name: "crm"})
			return err
		},
		func() error {
			_, err := c.ListDeliveries(ctx, &ticketv1.ListDeliveriesRequest{Caller: signedIn("eve"), Name: "crm"})
			return err
		},
		func() error {
			_, err := c.ReplayWebhook(ctx, &ticketv1.ReplayWebhookRequest{Caller: signedIn("eve"), Name: "crm", Since: timestamppb.New(opening)})
			return err
		},
	} {
		requireReason(t, call(), "ROLE_REQUIRED")
	}
	_, err = c.DeleteWebhook(ctx, &ticketv1.DeleteWebhookRequest{Caller: admin(), Name: "crm"})
	require.NoError(t, err)
	list, err = c.ListWebhooks(ctx, &ticketv1.ListWebhooksRequest{Caller: admin()})
	require.NoError(t, err)
	require.Empty(t, list.GetItems())
}
