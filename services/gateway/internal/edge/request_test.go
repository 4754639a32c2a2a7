package edge_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/services/gateway/internal/edge"
)

// Services give more for a role. Where a route does not require one, no act is recorded, so nobody may
// have more there.
func TestRolesReachServicesOnlyWhereTheyAreRequired(t *testing.T) {
	t.Parallel()
	for access, want := range map[edge.Access][]string{
		edge.Public: nil, edge.Visitor: nil, edge.User: nil, edge.Entry: nil, edge.Staff: {"admin"}, edge.Admin: {"admin"},
	} {
		q := &edge.Request{
			Match: edge.Match{Route: &edge.Route{Access: access}}, Session: &claims.Session{UserID: "operator", Roles: []string{"admin"}},
		}
		c := q.Caller()
		require.Equal(t, "operator", c.GetUserId(), access)
		require.Equal(t, want, c.GetRoles(), access)
	}
}
