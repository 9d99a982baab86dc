"""Small tables of people, items and purchases, and their configuration."""

PEOPLE = "id,age,town,label,day\na1,20,Rome,x,2001-02-03\nb2,40,,y,2002-01-01\nc3,60,Bern,,2003-01-01\nd4,20,Rome,x,2004-05-05\n"
ITEMS = "item,price\n7,1.5\n9,2.5\n"
BOUGHT = "who,what,times\na1,9,1\nb2,7,2\na1,9,3\n"
CONFIG = {
    "version": "gconstruct-v0.1",
    "nodes": [
        {
            "node_type": "person",
            "files": "people.csv",
            "format": {"name": "csv"},
            "node_id_col": "id",
            "features": [
                {"feature_col": "age", "transform": {"name": "max_min_norm"}},
                {"feature_col": "town", "feature_name": "t", "transform": {"name": "to_categorical"}},
            ],
            "labels": [{"label_col": "label", "task_type": "classification", "split_pct": [0.4, 0.3, 0.3]}],
        },
        {
            "node_type": "item",
            "files": ["items.csv"],
            "format": {"name": "csv", "separator": ","},
            "node_id_col": "item",
            "features": [{"feature_col": ["price"]}],
        },
    ],
    "edges": [
        {
            "relation": ["person", "bought", "item"],
            "files": ["bought*.csv"],
            "format": {"name": "csv"},
            "source_id_col": "who",
            "dest_id_col": "what",
        }
    ],
}
