package rpc_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// A list that is swapped leaves versions with different digests, in pages, of which each is readable.
func TestVersionsOfLists(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	c.put(t, putEvent("e", "GENERAL", admissions("A", 10)))
	var uploads []*ticketv1.EntitlementList
	for i, users := range [][]string{{"ann", "bob"}, {"ann", "mallory"}, {"ann", "bob"}} {
		began, err := c.BeginUpload(ctx, &ticketv1.BeginUploadRequest{Caller: admin(), EventId: "e", List: "l"})
		require.NoError(t, err)
		_, err = c.AddToUpload(ctx, &ticketv1.AddToUploadRequest{Caller: admin(), UploadId: began.GetUploadId(), UserIds: users, Emails: []string{"a@example.com"}})
		require.NoError(t, err)
		list, err := c.FinishUpload(ctx, &ticketv1.FinishUploadRequest{
			Caller: admin(), UploadId: began.GetUploadId(), Sha256: strings.Repeat([]string{"a", "b", "c"}[i], 64),
		})
		require.NoError(t, err)
		uploads = append(uploads, list)
	}
	var digests []string
	in := &ticketv1.ListEntitlementVersionsRequest{Caller: admin(), EventId: "e", List: "l", Limit: 2}
	for {
		page, err := c.ListEntitlementVersions(ctx, in)
		require.NoError(t, err)
		for _, v := range page.GetItems() {
			digests = append(digests, v.GetSha256()[:1])
			require.Equal(t, "op", v.GetUploadedBy())
			require.Equal(t, v.GetSha256()[:1] != "c", v.GetReplacedAt() != nil)
		}
		if in.Cursor = page.GetNextCursor(); in.GetCursor() == "" {
			break
		}
	}
	require.Equal(t, []string{"c", "b", "a"}, digests)

	read := &ticketv1.ReadEntitlementVersionRequest{Caller: admin(), EventId: "e", List: "l", Version: uploads[1].GetVersion()}
	users, err := c.ReadEntitlementVersion(ctx, read)
	require.NoError(t, err)
	require.Equal(t, []string{"ann", "mallory"}, users.GetUserIds())
	require.Equal(t, []string{"a@example.com"}, users.GetEmails())
	read.After, read.AfterEmail = "a@example.com", true
	users, err = c.ReadEntitlementVersion(ctx, read)
	require.NoError(t, err)
	require.Empty(t, append(users.GetUserIds(), users.GetEmails()...))

	read.Version = uuid.NewString()
	_, err = c.ReadEntitlementVersion(ctx, read)
	requireReason(t, err, "UPLOAD_NOT_FOUND")
	read.Caller, in.Caller, in.Cursor = signedIn("u"), signedIn("u"), ""
	_, err = c.ReadEntitlementVersion(ctx, read)
	requireReason(t, err, "ROLE_REQUIRED")
	_, err = c.ListEntitlementVersions(ctx, in)
	requireReason(t, err, "ROLE_REQUIRED")
	in.Caller, in.Cursor = admin(), "x"
	_, err = c.ListEntitlementVersions(ctx, in)
	requireReason(t, err, "INVALID_CURSOR")
}
