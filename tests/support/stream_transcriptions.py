"""The papers' pseudo-code of partitioning a stream of edges, word for word, in plain Python: slow, with sets, lists and no state shared.

Each takes `(edges, nodes, parts, ...)` and gives the partition of every edge; those that divide the nodes give that of every node
as well. What a paper leaves open is said where it is decided.
"""

from collections import Counter


def degrees_of(edges):
    return Counter(end for edge in edges for end in edge)


def splitmix64(node, seed):
    z = (node + (seed + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return (z ^ (z >> 31)) >> 1


def dbh(edges, nodes, parts, seed=0, estimated=False):
    """Xie et al. 2014, Algorithm 1: if d_i < d_j then vertex-hash of v_i, else of v_j."""
    degrees, found = Counter() if estimated else degrees_of(edges), []
    for i, j in edges:
        if estimated:
            degrees[i] += 1
            degrees[j] += 1
        found.append(splitmix64(i if degrees[i] < degrees[j] else j, seed) % parts)
    return found


def greedy(edges, nodes, parts):
    """Gonzalez et al. 2012, section 4.2.1, cases 1 to 4; the least loaded of the machines that a case leaves."""
    machines, unassigned = {v: set() for v in range(nodes)}, degrees_of(edges)
    load, found = [0] * parts, []
    for u, v in edges:
        if machines[u] & machines[v]:
            choice = machines[u] & machines[v]
        elif machines[u] and machines[v]:
            choice = machines[u] if unassigned[u] >= unassigned[v] else machines[v]
        elif machines[u] or machines[v]:
            choice = machines[u] or machines[v]
        else:
            choice = set(range(parts))
        best = min(choice, key=lambda machine: (load[machine], machine))
        for end in (u, v):
            machines[end].add(best)
            unassigned[end] -= 1
        load[best] += 1
        found.append(best)
    return found


def hdrf(edges, nodes, parts, weight=1.0, counted=False):
    """Petroni et al. 2015, Algorithm 1 with equations 4 to 8; epsilon is 1."""
    degree, machines = degrees_of(edges) if counted else Counter(), {v: set() for v in range(nodes)}
    load, found = [0] * parts, []
    for i, j in edges:
        if not counted:
            degree[i] += 1
            degree[j] += 1
        theta = {i: degree[i] / (degree[i] + degree[j]), j: degree[j] / (degree[i] + degree[j])}

        def score(p, theta=theta, ends=(i, j)):
            g = [1 + (1 - theta[end]) if p in machines[end] else 0 for end in ends]
            return g[0] + g[1] + weight * (max(load) - load[p]) / (1 + max(load) - min(load))

        best = max(range(parts), key=lambda p: (score(p), -p))
        machines[i].add(best)
        machines[j].add(best)
        load[best] += 1
        found.append(best)
    return found


def clusters_of(edges, most):
    """CATGNN's Algorithm 1, lines 1 to 21: `(c, n, d)`, clusters, richest neighbours and degrees."""
    d, c, vol, members, n, k = degrees_of(edges), Counter(), Counter(), {}, {}, 1
    for u, v in edges:
        for node in (u, v):
            if c[node] == 0:
                c[node] = k
                k += 1
                vol[c[node]] += d[node]
                members[c[node]] = {node}
        if vol[c[u]] <= most and vol[c[v]] <= most:
            mover, other = (u, v) if vol[c[u]] <= vol[c[v]] else (v, u)
            vol[c[mover]] -= d[mover]
            members[c[mover]] -= {mover}
            vol[c[other]] += d[mover]
            members[c[other]] |= {mover}
            c[mover] = c[other]
        for node, neighbour in ((u, v), (v, u)):
            if (d[n[node]] if node in n else 0) < d[neighbour]:
                n[node] = neighbour
    return c, n, d, members


def assign(members, nodes, parts):
    """Algorithm 1, lines 31 to 34. Nodes of no cluster come last, one by one."""
    partitions = [set() for _ in range(parts)]
    for i in sorted(members, key=lambda i: (-len(members[i]), i)):
        if members[i]:
            min(partitions, key=len).update(members[i])
    for v in range(nodes):
        if not any(v in partition for partition in partitions):
            min(partitions, key=len).add(v)
    return [next(s for s in range(parts) if v in partitions[s]) for v in range(nodes)]


def edges_of(edges, owners):
    """Where edges go once the nodes have: to the end of lower degree, as DBH has it."""
    d = degrees_of(edges)
    return [owners[u] if d[u] < d[v] else owners[v] for u, v in edges]


def hollocou(edges, nodes, parts, volume=0.1):
    members = clusters_of(edges, volume * len(edges) / parts)[3]
    owners = assign(members, nodes, parts)
    return edges_of(edges, owners), owners


def spring(edges, nodes, parts, volume=0.1, beta=1.05):
    """CATGNN's Algorithm 1, with the order of clusters made anew after every merge, as section 4.2 says."""
    c, n, d, members = clusters_of(edges, volume * len(edges) / parts)

    def representative(i):
        return max(sorted(members[i]), key=lambda v: (d[n[v]], -v))

    scanned = set()
    while True:
        ranked = sorted((len(members[i]), i) for i in members if members[i] and (len(members[i]), i) not in scanned)
        if not ranked:
            break
        scanned.add(ranked[0])
        i = ranked[0][1]
        target = c[n[representative(i)]]
        if len(members[i]) + len(members[target]) <= beta * nodes / parts and i != target:
            for v in members[i]:
                c[v] = target
            members[target] |= members[i]
            members[i] = set()
    owners = assign(members, nodes, parts)
    return edges_of(edges, owners), owners


def two_phase(edges, nodes, parts, volume=2.0, alpha=1.05, seed=0):
    """Mayer et al. 2022: Algorithm 1 (clustering), clusters to partitions, and Algorithm 2 (placing)."""
    d, v2c, vol, fresh = degrees_of(edges), {}, Counter(), 1
    max_vol = volume * len(edges) / parts
    for u, v in edges:
        for node in (u, v):
            if node not in v2c:
                v2c[node] = fresh
                vol[fresh] += d[node]
                fresh += 1
        if v2c[u] != v2c[v] and vol[v2c[u]] <= max_vol and vol[v2c[v]] <= max_vol:
            v_s = min((u, v), key=lambda w: vol[v2c[w]] - d[w])
            v_l = v if v_s == u else u
            if vol[v2c[v_l]] + d[v_s] <= max_vol:
                vol[v2c[v_l]] += d[v_s]
                vol[v2c[v_s]] -= d[v_s]
                v2c[v_s] = v2c[v_l]
    c2p, vol_p = {}, [0] * parts
    for cluster in sorted(vol, key=lambda cluster: (-vol[cluster], cluster)):
        if vol[cluster]:
            c2p[cluster] = vol_p.index(min(vol_p))
            vol_p[c2p[cluster]] += vol[cluster]
    v2p, load, found = {v: set() for v in range(nodes)}, [0] * parts, [None] * len(edges)
    bound = alpha * len(edges) / parts

    def place(number, u, v, p):
        if load[p] >= bound:
            p = splitmix64(u if d[u] >= d[v] else v, seed) % parts
        if load[p] >= bound:
            p = load.index(min(load))
        load[p] += 1
        v2p[u].add(p)
        v2p[v].add(p)
        found[number] = p

    for number, (u, v) in enumerate(edges):  # those within
        if c2p[v2c[u]] == c2p[v2c[v]]:
            place(number, u, v, c2p[v2c[u]])
    for number, (u, v) in enumerate(edges):
        if c2p[v2c[u]] != c2p[v2c[v]]:

            def score(p, u=u, v=v):
                g_u = 1 + (1 - d[u] / (d[u] + d[v])) if p in v2p[u] else 0
                g_v = 1 + (1 - d[v] / (d[u] + d[v])) if p in v2p[v] else 0
                both = vol[v2c[u]] + vol[v2c[v]]
                sc_u = vol[v2c[u]] / both if c2p[v2c[u]] == p else 0
                sc_v = vol[v2c[v]] / both if c2p[v2c[v]] == p else 0
                return g_u + g_v + sc_u + sc_v

            place(number, u, v, max((c2p[v2c[u]], c2p[v2c[v]]), key=score))
    return found
