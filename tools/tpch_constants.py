"""Other constants for the queries of `tpch.sql`, drawn as TPC-H draws them (specification 3.0.1, sections 2.4.1.3 to 2.4.22.3), but for what depends on
the scale: `varied(name, query, random)` gives the query's text with others in the places of its own.
"""

import datetime
import re

NATIONS = {
    "AFRICA": ["ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"],
    "AMERICA": ["ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"],
    "ASIA": ["CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"],
    "EUROPE": ["FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"],
    "MIDDLE EAST": ["EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"],
}
ALL_NATIONS = [nation for nations in NATIONS.values() for nation in nations]
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]
TYPES = [
    ["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
]
CONTAINERS = [["SM", "LG", "MED", "JUMBO", "WRAP"], ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"]]
MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
# Some of the words of which names of parts are made.
COLORS = ["almond", "azure", "blue", "chocolate", "cyan", "forest", "green", "ivory", "lemon", "olive", "red", "turquoise"]


def month(random, last, first=(1993, 1)):
    """A month's first day, and that of the third month behind it."""
    count = lambda year, month: 12 * year + month - 1
    drawn = random.randint(count(*first), count(*last))
    day = lambda months: f"date '{months // 12}-{months % 12 + 1:02}-01'"
    return day(drawn), day(drawn + 3), day(drawn + 1)


def year(random):
    """A year's first day, and the next one's."""
    drawn = random.randint(1993, 1997)
    return f"date '{drawn}-01-01'", f"date '{drawn + 1}-01-01'"


def day(text, days):
    return f"date '{datetime.date.fromisoformat(text) + datetime.timedelta(days)}'"


def brand(random):
    return f"'Brand#{random.randint(1, 5)}{random.randint(1, 5)}'"


def quoted(*parts):
    return f"'{' '.join(parts)}'"


def constants(name, random):
    """Which constants take the places of which."""
    pick = random.choice
    if name == "Q1":
        return {"date '1998-09-02'": day("1998-12-01", -random.randint(60, 120))}
    if name == "Q2":
        return {"15": str(random.randint(1, 50)), "'%BRASS'": f"'%{pick(TYPES[2])}'", "'EUROPE'": quoted(pick(list(NATIONS)))}
    if name == "Q3":
        return {"'BUILDING'": quoted(pick(SEGMENTS)), "date '1995-03-15'": day("1995-03-01", random.randint(0, 30))}
    if name == "Q4":
        begin, end, _ = month(random, (1997, 10))
        return {"date '1993-07-01'": begin, "date '1993-10-01'": end}
    if name == "Q5":
        begin, end = year(random)
        return {"'ASIA'": quoted(pick(list(NATIONS))), "date '1994-01-01'": begin, "date '1995-01-01'": end}
    if name == "Q6":
        (begin, end), discount = year(random), random.randint(2, 9)
        return {"date '1994-01-01'": begin, "date '1995-01-01'": end, "0.05": f"0.{discount - 1:02}",
                "0.07": f"0.{discount + 1:02}", "24": pick(["24", "25"])}
    if name == "Q7":
        one, other = random.sample(ALL_NATIONS, 2)
        return {"'FRANCE'": quoted(one), "'GERMANY'": quoted(other)}
    if name == "Q8":
        region = pick(list(NATIONS))
        return {"'BRAZIL'": quoted(pick(NATIONS[region])), "'AMERICA'": quoted(region),
                "'ECONOMY ANODIZED STEEL'": quoted(*map(pick, TYPES))}
    if name == "Q9":
        return {"'%green%'": f"'%{pick(COLORS)}%'"}
    if name == "Q10":
        begin, end, _ = month(random, (1995, 1), (1993, 2))
        return {"date '1993-10-01'": begin, "date '1994-01-01'": end}
    if name == "Q11":
        return {"'GERMANY'": quoted(pick(ALL_NATIONS))}
    if name == "Q12":
        (begin, end), (one, other) = year(random), random.sample(MODES, 2)
        return {"'MAIL'": quoted(one), "'SHIP'": quoted(other), "date '1994-01-01'": begin, "date '1995-01-01'": end}
    if name == "Q13":
        first = pick(["special", "pending", "unusual", "express"])
        return {"'%special%requests%'": f"'%{first}%{pick(['packages', 'requests', 'accounts', 'deposits'])}%'"}
    if name == "Q14":
        begin, _, end = month(random, (1997, 12))
        return {"date '1995-09-01'": begin, "date '1995-10-01'": end}
    if name == "Q15":
        begin, end, _ = month(random, (1997, 10))
        return {"date '1996-01-01'": begin, "date '1996-04-01'": end}
    if name == "Q16":
        sizes = dict(zip(["49", "14", "23", "45", "19", "3", "36", "9"], map(str, random.sample(range(1, 51), 8))))
        return {"'Brand#45'": brand(random), "'MEDIUM POLISHED%'": f"'{pick(TYPES[0])} {pick(TYPES[1])}%'", **sizes}
    if name == "Q17":
        return {"'Brand#23'": brand(random), "'MED BOX'": quoted(*map(pick, CONTAINERS))}
    if name == "Q18":
        return {"300": str(random.randint(312, 315))}
    if name == "Q19":
        brands = {f"'Brand#{known}'": brand(random) for known in (12, 23, 34)}
        low = [random.randint(1, 10), random.randint(10, 20), random.randint(20, 30)]
        bounds = {f"l_quantity >= {known} AND l_quantity <= {known + 10}": f"l_quantity >= {drawn} AND l_quantity <= {drawn + 10}"
                  for known, drawn in zip((1, 10, 20), low)}
        return brands | bounds
    if name == "Q20":
        begin, end = year(random)
        return {"'forest%'": f"'{pick(COLORS)}%'", "'CANADA'": quoted(pick(ALL_NATIONS)), "date '1994-01-01'": begin,
                "date '1995-01-01'": end}
    if name == "Q21":
        return {"'SAUDI ARABIA'": quoted(pick(ALL_NATIONS))}
    codes = random.sample(range(10, 35), 7)
    return {f"'{known}'": f"'{drawn}'" for known, drawn in zip((13, 31, 23, 29, 30, 18, 17), codes)}


def varied(name, query, random):
    chosen = constants(name, random)
    # All at once, and no part of a longer word or number.
    places = "|".join(rf"(?<![\w.#]){re.escape(known)}(?![\w.])" for known in sorted(chosen, key=len, reverse=True))
    found = set(re.findall(places, query))
    if found != set(chosen):
        raise ValueError(f"{name} has no {set(chosen) - found}")
    return re.sub(places, lambda place: chosen[place.group()], query)
